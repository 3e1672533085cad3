"""Opens a CTranslate2 folder as a transformers model, with CTranslate2's search behind `generate()`.

`AutoModelForSeq2SeqLM.from_pretrained` returns this model for folders that `hf-vaswani export --to ctranslate2` has
written, and it works in the translation pipeline. One worker with one thread is started for each of torch's threads:
several batches in parallel are faster than one batch on all cores.
"""

import ctypes
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from transformers import GenerationConfig, PreTrainedConfig
from transformers.generation import GenerateBeamEncoderDecoderOutput

from ..backends import CTRANSLATE2
from ..core.configuration_vaswani import VaswaniConfig
from ..core.generation_beam_search import Scoring
from ..core.generation_vaswani import length_offset, own_max_length
from ..errors import InputError
from ..generation.settings import setting_errors
from ..models.model_files import SHORTLIST_FILE
from ..runtime.imports import import_extra
from .ctranslate2_config import CTranslate2Config
from .engine_model import EngineModel, empty_table

# Settings of a model that do not change its translations.
WITHOUT_EFFECT = {
    "transformers_version", "cache_implementation", "cache_config", "compile_config",
    "renormalize_logits",  # which the engine always does
}  # fmt: skip
# Source tokens that a worker translates in one batch, at most; larger ones are no faster. With a shortlist, smaller
# ones are faster: a batch chooses among the target tokens of all of its sentences.
BATCH_TOKENS, SHORTLIST_BATCH_TOKENS = 1024, 512
# By `early_stopping`: how many finished hypotheses end a sentence, as a multiple of the beam. Unless it is True, the
# most probable hypothesis of a step must have ended, too: improbable short ones do not end the search by their number.
PATIENCE = {True: 1, False: 2, "never": 3}
LARGEST_TABLE = 2**31  # positions
# The settings that limit the length of an output, besides `max_length_offset`, in order of precedence.
OFFSET, LENGTHS = "max_length_offset", ("max_new_tokens", "max_length")
# Token ids that the config has, too.
TOKENS = ("eos_token_id", "pad_token_id", "decoder_start_token_id")


@dataclass(frozen=True)
class SearchSettings:
    """The arguments of `generate()` that are supported; others raise an error unless they have a neutral value."""

    num_beams: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    length_penalty_type: str = "length"
    max_length: int | None = None
    max_new_tokens: int | None = None
    max_length_offset: int | None = None
    min_length: int = 0
    min_new_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: list[list[int]] = field(default_factory=list)
    suppress_tokens: list[int] = field(default_factory=list)
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | list[int] | None = None
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = None
    early_stopping: bool | str = False
    return_dict_in_generate: bool = False
    output_scores: bool = False
    use_cache: bool = True

    @property
    def waits_for_best(self) -> bool:
        """Whether a sentence is done only once the most probable hypothesis of a step has ended.

        The engine searches like this if it has no length penalty.
        """
        return self.num_beams > 1 and self.early_stopping is not True

    @property
    def engine_penalty(self) -> float:
        """The length penalty that the engine computes scores with."""
        return 0.0 if self.waits_for_best else self.length_penalty

    def hypotheses(self, has_prompts: bool) -> int:
        """The number of hypotheses that the engine returns, to be ranked by the length penalty of the search."""
        if self.waits_for_best:
            return self.num_beams * PATIENCE[self.early_stopping]
        is_ranked = self.num_beams > 1 and (self.length_penalty_type == "gnmt" or has_prompts)
        return self.num_beams if is_ranked else self.num_return_sequences


SETTINGS = {setting.name for setting in fields(SearchSettings)}


class CTranslate2Model(EngineModel):
    """Translates with `ctranslate2.Translator`; has neither torch weights nor a forward pass.

    Args:
        config: the folder's config.
        folder: a folder with `model.bin` and the vocabularies.
        original, generation_config: the configs of the converted model, if the folder does not have them.
        dtype: CTranslate2's type to compute in; by default, the type that the weights were stored for.
        device: `"cpu"`, `"cuda"`, `"cuda:1"` or `"auto"`.

    Attributes:
        uses_shortlist: whether it chooses among the target tokens of the folder's shortlist only, if there is one.

    Raises:
        InputError: CTranslate2 is not installed or cannot open the folder, or its vocabularies do not fit its config.
    """

    config_class = CTranslate2Config
    engine_key, engine_name = CTRANSLATE2.name, CTRANSLATE2.title
    length_follows_source: bool
    # The random numbers of its workers cannot be seeded again.
    samples_follow_seed = False

    def __init__(
        self,
        config: CTranslate2Config,
        folder: str | Path,
        dtype: str = "default",
        device: str = "auto",
        original: PreTrainedConfig | None = None,
        generation_config: GenerationConfig | None = None,
    ):
        super().__init__(config)
        self.stored = config
        self.config = original or config
        self.length_follows_source = isinstance(self.config, VaswaniConfig | CTranslate2Config)
        self.workers = torch.get_num_threads()
        self.callers = 1  # threads that translate at the same time, each with its share of the workers
        self._place, self._opened = (str(folder), device, dtype), None
        self.translator  # noqa: B018 - which opens it
        self.uses_shortlist = (Path(folder) / SHORTLIST_FILE).exists()
        self.tokens = [read_tokens(Path(folder), side) for side in ("source", "target")]
        sizes, rows = [len(tokens) for tokens in self.tokens], [config.vocab_size, config.decoder_vocab_size]
        if sizes != rows:
            raise InputError(
                f"{folder}: its source and target vocabularies have {sizes[0]} and {sizes[1]} tokens, but its "
                f"config.json says {rows[0]} and {rows[1]}. Export the model again."
            )
        if not 0 <= config.max_position_embeddings <= LARGEST_TABLE:
            raise InputError(f"{folder}: its config.json has a wrong max_position_embeddings. Export the model again.")
        self.ids = {token: index for index, token in enumerate(self.tokens[1])}
        self.generation_config = generation_config or GenerationConfig.from_pretrained(folder)
        self.eval()

    @classmethod
    def engine_arguments(cls, kwargs: dict[str, object]) -> dict[str, object]:
        """The type to compute in and the device, as `dtype` and `device`."""
        dtype = str(kwargs.get("dtype") or "auto").removeprefix("torch.")
        return {"dtype": "default" if dtype == "auto" else dtype, "device": kwargs.get("device") or "auto"}

    @property
    def translator(self) -> object:
        """What CTranslate2 has opened; it is opened again after a fork, and by a copy or an unpickled model."""
        if self._opened is None:
            self._opened = self._open()
            _models.add(self)
        return self._opened

    def _open(self) -> object:
        engine, (folder, device, dtype) = import_extra("ctranslate2"), self._place
        name, _, index = device.partition(":")
        arguments = {"device_index": int(index or 0), "inter_threads": self.workers, "intra_threads": 1}
        try:
            return engine.Translator(folder, device=name, compute_type=dtype, **arguments)
        except (RuntimeError, ValueError) as error:
            raise InputError(f"CTranslate2 cannot open {folder}: {error}") from None
        finally:
            torch.set_num_threads(self.workers)  # the engine changes it, since both share OpenMP

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_opened": None}

    @property
    def computed_by(self) -> str:
        """The engine, its device, and the type it computes in, which depends on what the device supports."""
        return f"CTranslate2 on the {self.translator.device.upper()}, in {self.translator.compute_type}"

    def get_encoder(self, *args, **kwargs) -> torch.nn.Module:
        return self

    def get_decoder(self, *args, **kwargs) -> torch.nn.Module:
        return self

    def get_input_embeddings(self) -> torch.nn.Module:
        return empty_table(self.stored.vocab_size)

    @property
    def embed_positions(self) -> torch.nn.Module | None:
        positions = self.stored.max_position_embeddings
        return empty_table(positions) if positions else None

    def forward(self, *args, **kwargs):
        raise NotImplementedError(
            "A CTranslate2 model returns neither logits nor attention weights. Use the original model."
        )

    def target_log_probabilities(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each token of given targets, with the end token but without the start token.

        Args:
            sources: token ids as the tokenizer returns them.
            targets: token ids without start and end.
        """
        rows = [[[tokens[i] for i in ids] for ids in side] for tokens, side in zip(self.tokens, (sources, targets))]
        # Without a limit of length, beyond which the engine would cut silently.
        limits = {"max_input_length": 0, "max_batch_size": BATCH_TOKENS, "batch_type": "tokens"}
        scores = self.translator.score_batch(*rows, **limits)
        return [result.log_probs for result in scores]

    def generate(
        self,
        inputs: torch.LongTensor | None = None,
        generation_config: GenerationConfig | None = None,
        *,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.LongTensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        **kwargs,
    ) -> torch.LongTensor | GenerateBeamEncoderDecoderOutput:
        """Translate as transformers' `generate()` does.

        With the GNMT length penalty, which CTranslate2 lacks, its best hypotheses are re-ranked by that penalty.
        Unless `early_stopping` is True, the engine searches without a length penalty, and all are re-ranked.

        Args:
            inputs, input_ids: `(batch, source_length)`; give one of the two.
            attention_mask: `(batch, source_length)`, 0 for padding.
            decoder_input_ids: `(1 or batch, prompt_length)`, with or without the decoder's start token.
            kwargs: search settings; see `SearchSettings`.

        Returns:
            Ids `(batch * num_return_sequences, length)`, starting with the decoder's start token and padded on the
            right; with `return_dict_in_generate=True`, also `sequences_scores`.

        Raises:
            ValueError: a setting is invalid, or CTranslate2 does not support it.
        """
        source = inputs if input_ids is None else input_ids
        search = self.search_settings(generation_config, kwargs)
        mask = torch.ones_like(source) if attention_mask is None else attention_mask
        rows = [ids[kept].tolist() for ids, kept in zip(source, mask.bool())]
        prompts = [] if decoder_input_ids is None else decoder_input_ids.tolist()
        found = self.search(rows, prompts if len(prompts) == len(rows) else prompts * len(rows), search)
        scores, sequences = zip(*(hypothesis for own in found for hypothesis in own))
        length, pad = max(map(len, sequences)), search.pad_token_id or 0
        ids = torch.tensor([row + [pad] * (length - len(row)) for row in sequences])
        if not search.return_dict_in_generate:
            return ids
        return GenerateBeamEncoderDecoderOutput(sequences=ids, sequences_scores=torch.tensor(scores))

    def search(
        self,
        rows: Sequence[list[int]],
        prompts: Sequence[list[int]],
        search: SearchSettings,
        finished: Callable[[int], None] = lambda number: None,
    ) -> list[list[tuple[float, list[int]]]]:
        """Search for translations of token ids.

        Args:
            prompts: what each output begins with, with or without the decoder's start token; empty for nothing.
            finished: called with the number of each source once it has been searched.

        Returns:
            For each source its hypotheses, best first: score, and ids from the decoder's start token on.
        """
        start = search.decoder_start_token_id
        prompts = [ids[1:] if ids[:1] == [start] else ids for ids in prompts] or [[]] * len(rows)
        limits = self._limits(rows, prompts, search)
        results = self._translate(rows, prompts, max(limits), search, finished)
        for limit, numbers in self._beyond(results, limits).items():
            # The engine has a single limit for all sentences: those that went beyond their own are searched again.
            again = [rows[i] for i in numbers], [prompts[i] for i in numbers]
            for number, result in zip(numbers, self._translate(*again, limit, search)):
                results[number] = result
        return [self._ranked(*found, search) for found in zip(results, prompts, limits)]

    def _beyond(self, results: list[Any], limits: list[int]) -> dict[int, list[int]]:
        """Limit → numbers of the sentences with that limit of which a hypothesis is longer."""
        beyond: dict[int, list[int]] = {}
        for number, (result, limit) in enumerate(zip(results, limits)):
            if any(len(tokens) > limit for tokens in result.hypotheses):
                beyond.setdefault(limit, []).append(number)
        return beyond

    def search_settings(self, config: GenerationConfig | None, given: dict[str, Any]) -> SearchSettings:
        """All settings: the call's arguments take precedence over its config, and that over the model's own.

        Raises:
            ValueError: a setting is invalid, or CTranslate2 does not support it.
        """
        given = {name: value for name, value in given.items() if value is not None}
        call = {**(config.to_diff_dict() if config else {}), **given}
        own = {**self.generation_config.to_diff_dict(), "max_length": own_max_length(self.generation_config)}
        if unknown := unsupported({**own, **call}):
            raise ValueError(f"CTranslate2 does not support {', '.join(unknown)}. Use the original model.")
        names = SETTINGS - {OFFSET, *LENGTHS}
        settings = {name: value for name, value in {**own, **call}.items() if name in names and value is not None}
        offset = length_offset(given, config, self.generation_config)
        settings |= {OFFSET: offset} if offset is not None else length_rule(call) or length_rule(own)
        tokens = {name: getattr(self.stored, name) for name in TOKENS}
        errors, search = setting_errors(settings, self.stored.decoder_vocab_size), SearchSettings(**tokens | settings)
        if search.decoder_start_token_id != self.stored.decoder_start_token_id:
            errors = [f"CTranslate2 starts from the token {self.stored.decoder_start_token_id} only"]
        if not errors and search.num_return_sequences > search.num_beams and not search.do_sample:
            errors = [f"num_return_sequences={search.num_return_sequences} exceeds num_beams={search.num_beams}"]
        if errors:
            raise ValueError("; ".join(errors))
        return search

    def _translate(
        self,
        rows: list[list[int]],
        prompts: list[list[int]],
        longest: int,
        search: SearchSettings,
        finished: Callable[[int], None] = lambda number: None,
    ) -> list[Any]:
        source_tokens, target_tokens = self.tokens
        eos = search.eos_token_id
        suppressed = [*search.bad_words_ids, *([i] for i in search.suppress_tokens)]
        sampling = {
            "sampling_topk": min(search.top_k, self.stored.decoder_vocab_size),
            "sampling_topp": search.top_p,
            "sampling_temperature": search.temperature,
        }
        # A forced first token is not part of a prompt: it counts as generated.
        forced = [] if search.forced_bos_token_id is None else [search.forced_bos_token_id]
        prefix = [[target_tokens[i] for i in prompt or forced] or None for prompt in prompts]
        # With a shortlist, CTranslate2 confuses the ids of given tokens.
        uses_shortlist = self.uses_shortlist and not any(prefix) and not suppressed
        running = self.translator.translate_batch(
            [[source_tokens[i] for i in ids] for ids in rows],
            prefix if any(prefix) else None,
            beam_size=search.num_beams,
            patience=PATIENCE[search.early_stopping],
            num_hypotheses=search.hypotheses(any(prompts)),
            length_penalty=search.engine_penalty,
            max_decoding_length=longest,
            min_decoding_length=min(_shortest(prompts, search), longest),
            repetition_penalty=search.repetition_penalty,
            no_repeat_ngram_size=search.no_repeat_ngram_size,
            suppress_sequences=[[target_tokens[i] for i in ids] for ids in suppressed] or None,
            end_token=[eos] if isinstance(eos, int) else list(eos),
            return_end_token=True,
            return_scores=True,
            use_vmap=uses_shortlist,
            max_batch_size=self._batch_tokens(rows, SHORTLIST_BATCH_TOKENS if uses_shortlist else BATCH_TOKENS),
            batch_type="tokens",
            asynchronous=True,
            **sampling if search.do_sample else {},
        )
        results = []
        for row, result in enumerate(running):
            results.append(result.result())
            finished(row)
        return results

    def _batch_tokens(self, rows: list[list[int]], most: int) -> int:
        """The size of a batch, about `most` tokens, that gives all workers the same number of batches."""
        total = sum(map(len, rows))
        workers = max(self.workers // self.callers, 1)
        batches = workers * math.ceil(total / (workers * most))
        # With room for padding.
        return max(math.ceil(1.1 * total / batches), max(map(len, rows)))

    def _limits(self, rows: Sequence[list[int]], prompts: Sequence[list[int]], search: SearchSettings) -> list[int]:
        """The maximum number of tokens in each source's output, with its end token but without the start token."""
        if search.max_length_offset is not None:
            limits = [len(ids) + search.max_length_offset for ids in rows]
        elif search.max_new_tokens is not None:
            limits = [len(prompt) + search.max_new_tokens for prompt in prompts]
        else:
            limits = [search.max_length - 1] * len(rows)
        return [min(limit, self.stored.max_position_embeddings or limit) for limit in limits]

    def _ranked(
        self, result: object, prompt: list[int], limit: int, search: SearchSettings
    ) -> list[tuple[float, list[int]]]:
        """The hypotheses of a source, ranked by the length penalty of the search."""
        scoring = Scoring(search.length_penalty, search.length_penalty_type)
        forced = search.forced_eos_token_id if search.max_length_offset is None else None
        forced = forced[0] if isinstance(forced, list) else forced
        found = []
        for score, tokens in zip(result.scores, result.hypotheses):
            # The engine's length includes the prefix; the model's search counts only what follows it.
            length = min(len(tokens), limit)
            total = score * max(length, 1) ** search.engine_penalty
            found.append((total / scoring.penalty(max(length - len(prompt), 1)), tokens[:limit]))
        found.sort(key=lambda pair: -pair[0])
        ranked = []
        for score, tokens in found[: search.num_return_sequences]:
            ids = [self.ids[token] for token in tokens]
            if forced is not None and len(ids) == limit:
                ids[-1] = forced
            ranked.append((score, [search.decoder_start_token_id, *ids]))
        return ranked


_models: "WeakSet[CTranslate2Model]" = WeakSet()


def _forget_opened() -> None:
    """In a forked process, forget what its parent has opened, without ever ending it: its threads are not there."""
    for model in _models:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(model._opened))
        model._opened = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_opened)


def _shortest(prompts: Sequence[list[int]], search: SearchSettings) -> int:
    """The minimum number of tokens in each output, without the start and end tokens."""
    lengths = set(map(len, prompts))
    if search.min_new_tokens and len(lengths) > 1:
        raise ValueError("min_new_tokens needs prefixes of the same length with CTranslate2.")
    return max(search.min_length - 1, search.min_new_tokens + max(lengths) if search.min_new_tokens else 0, 0)


def unsupported(settings: dict[str, Any]) -> list[str]:
    """The settings that CTranslate2 does not support, by name, unless they have a neutral value."""
    neutral = GenerationConfig().to_dict()
    return sorted(
        name
        for name, value in settings.items()
        if not (name in SETTINGS | WITHOUT_EFFECT or name.startswith("_"))
        and (isinstance(value, torch.Tensor) or value not in (neutral.get(name), None, False, [], {}))
    )


def length_rule(settings: dict[str, Any]) -> dict[str, int]:
    """The setting that limits the length of the output, by name, besides the offset; empty if none is set."""
    return next(({name: settings[name]} for name in LENGTHS if settings.get(name) is not None), {})


def open_conversion(
    folder: Path, config: PreTrainedConfig, generation_config: GenerationConfig, device: str
) -> CTranslate2Model:
    """Open a folder without a tokenizer, with the config and the generation config of the model."""
    stored = CTranslate2Config.from_pretrained(folder)
    return CTranslate2Model(stored, folder, device=device, original=config, generation_config=generation_config)


def read_tokens(folder: Path, side: str) -> list[str]:
    """The tokens of `"source"` or `"target"`, in the order of their ids."""
    path = folder / f"{side}_vocabulary.json"
    return json.loads((path if path.exists() else folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
