"""Scores and aligns given translations: the log-probability of each target, and which source word each word is from.

The decoder is fed the target (teacher forcing). Each target token, the end token included, is looked up in the model's
distribution at its position; links come from the attention with which it is predicted. This works with all
encoder-decoder models of transformers.
"""

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.tokenization_vaswani import leading_marks, private_copy
from ..data.tokenizers.tokenizer import check_target_encoding
from ..engines.engine_model import EngineModel
from ..generation.alignment import evaluation, to_tokens
from ..generation.output_scores import align, decoder_start, forced_output, token_log_probabilities
from ..generation.settings import GenerateArguments, position_limit
from ..text.inputs import check_many, check_number, check_text, text_pairs
from ..text.language_marks import marked_sources
from ..text.languages import choose_languages, language_id
from ..text.normalization import normalized
from ..text.token_spans import readable_tokens, token_spans
from ..text.words import Links, Span, word_spans, words_at
from .backends.selection import TORCH, BackendSelection
from .encoder import translation_task
from .search import token_batches
from .segments import WordScores

logger = logging.getLogger(__name__)

MOST_TOKENS = 1024
PAIRS_AT_ONCE = 4096
BATCH_TOKENS = 4096

EncodedPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class PairScore:
    """The score of one pair.

    Attributes:
        log_probability: natural logarithm of the probability of the whole target.
        length: number of target tokens, the end token included.
        score: the log-probability divided by the length penalty: the score that `generate()` would give this target.
        tokens: each token and its log-probability, if requested.
    """

    log_probability: float
    length: int
    score: float
    tokens: tuple[tuple[str, float], ...] | None = None


def score_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Iterable[tuple[str, str]],
    batch_tokens: int | None = None,
    max_length: int = MOST_TOKENS,
    with_tokens: bool = False,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    zero_shot: bool = False,
    engine: str = TORCH,
    report: Callable[[int, str], None] = lambda number, why: logger.warning("Pair %d is not scored: %s", number, why),
) -> Iterator[PairScore | None]:
    """Score pairs of a source and a target.

    Args:
        pairs: read as needed; the order is kept.
        batch_tokens: limit on the pairs of a batch times the tokens of their longest side; default: 4096.
        max_length: a pair with more tokens on a side, or more than the model has positions for, is not scored.
        with_tokens: also give the log-probability of each token.
        src_lang, tgt_lang, zero_shot: as in the pipeline.
        engine: what computes: `"torch"`; `"ctranslate2"`; or `"auto"`, CTranslate2 where it gives the same results
            and there is enough text.
        report: called with the number, from 1, of each pair that is not scored, and why; default: logs a warning.

    Returns:
        An iterator over the score of each pair; `None` for one that cannot be scored.

    Raises:
        ValueError: a number is invalid, or the engine cannot be used, at once; or, when it is reached, something is
            not a pair of texts, or the engine cannot score it.
    """
    check_target_encoding(tokenizer)
    check_many("pairs", pairs, "(source, target)")
    check_number("batch_tokens", batch_tokens)
    check_number("max_length", max_length)
    for name, code in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
        if code is not None:
            check_text(name, code)
    translation_task(model, src_lang=src_lang, tgt_lang=tgt_lang)  # refuses others than T5 has
    languages = choose_languages(model, tokenizer, (src_lang, tgt_lang), zero_shot)
    selection = BackendSelection(engine)
    if engine != TORCH:  # which stands for the model itself, also an exported one
        selection.check(model)
    limit = _token_limit(model, max_length)

    def scores() -> Iterator[PairScore | None]:
        first, texts = 1, iter(text_pairs(pairs))
        while window := list(islice(texts, PAIRS_AT_ONCE)):
            encoded = dict(enumerate(encode_with_languages(model, tokenizer, window, *languages)[1]))
            longest = [max(map(len, pair)) for pair in encoded.values()]
            scored: list[PairScore | None] = [None] * len(window)
            for row, (source, labels) in list(encoded.items()):
                if longest[row] > limit:
                    report(first + row, f"{longest[row]} tokens on one side, more than the limit of {limit}")
                elif not source or not labels:
                    report(first + row, "one side has no tokens")
                else:
                    continue
                del encoded[row]
            scorer = None
            if selection.is_possible and encoded:
                obstacle = _engine_obstacle(model, [labels for _, labels in encoded.values()])
                scorer = selection.scorer_for(model, obstacle, sum(longest))
            by_length = sorted(encoded, key=longest.__getitem__)
            for batch in token_batches(by_length, longest.__getitem__, batch_tokens or BATCH_TOKENS):
                own = [encoded[row] for row in batch]
                values = _score_batch(model, tokenizer, own, languages.target, with_tokens, scorer)
                for row, score in zip(batch, values):
                    scored[row] = score
            yield from scored
            first += len(window)

    return scores()


@dataclass(frozen=True)
class PairModel:
    """What a model says of given translations, word by word.

    Args:
        model: of any engine.
        src_lang, tgt_lang: languages, for multilingual tokenizers.
        selection: chooses an engine to compute in place of the model.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    src_lang: str | None = None
    tgt_lang: str | None = None
    selection: BackendSelection | None = None

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[WordScores | None]:
        """The scores of each pair of source and target, or `None` for a pair that cannot be scored."""
        if not pairs:
            return []
        model, tokenizer, targets = self.model, self.tokenizer, [target for _, target in pairs]
        _, encoded = encode_with_languages(model, tokenizer, pairs, self.src_lang, self.tgt_lang)
        limit, longest = _token_limit(model, MOST_TOKENS), [max(map(len, pair)) for pair in encoded]
        rows = [row for row, length in enumerate(longest) if all(encoded[row]) and length <= limit]
        rows.sort(key=longest.__getitem__)
        engine = model if isinstance(model, EngineModel) else None
        may_replace = engine is None and self.selection is not None and self.selection.is_possible
        if may_replace and _engine_obstacle(model, [encoded[row][1] for row in rows]) is None:
            engine = self.selection.scorer_for(model, None, sum(longest))
        found: list[WordScores | None] = [None] * len(pairs)
        words: dict[str, tuple[int, list[int | None]]] = {}  # of each target: their number, and each token's word
        for batch in token_batches(rows, longest.__getitem__, BATCH_TOKENS):
            scores = _score_batch(model, tokenizer, [encoded[row] for row in batch], self.tgt_lang, True, engine)
            for row, score in zip(batch, scores):
                tokens, values = zip(*score.tokens or ())
                if targets[row] not in words:
                    spans = word_spans(targets[row])
                    places = token_spans(readable_tokens(tokenizer, tokens), targets[row])
                    words[targets[row]] = len(spans), [next(iter(words_at(spans, place)), None) for place in places]
                count, word_of = words[targets[row]]
                sums = [0.0] * count
                for word, value in zip(word_of, values):
                    if word is not None:
                        sums[word] += value
                found[row] = WordScores(score.log_probability, score.length, tuple(sums))
        return found

    def align(self, pairs: Sequence[tuple[str, str]]) -> "Sequence[Links | None]":
        """Links between the words of each pair by attention, or `None` where there are none."""
        languages = self.src_lang, self.tgt_lang
        try:
            return align_pairs(self.model, self.tokenizer, pairs, *languages, words=word_spans) if pairs else []
        except ValueError:  # without attention
            return [None] * len(pairs)

    @torch.inference_mode()
    def encode(
        self, source: str, target: str, with_alignment: bool = False
    ) -> tuple[torch.LongTensor, dict[str, list]]:
        """The token ids of a translation, as from a search, and if requested its alignment, as in [`align`]."""
        _, [pair] = encode_with_languages(self.model, self.tokenizer, [(source, target)], self.src_lang, self.tgt_lang)
        ids = forced_output(self.model, torch.tensor([pair[1]], device=self.model.device))[0]
        return ids, _align_batch(self.model, self.tokenizer, [pair])[0] if with_alignment else {}


def _token_limit(model: PreTrainedModel, most: int) -> int:
    """The maximum number of tokens on a side."""
    positions = position_limit(model.get_encoder()), position_limit(model.get_decoder())
    return min(number for number in (most, *positions) if number is not None)


def _engine_obstacle(model: PreTrainedModel, labels: Sequence[list[int]]) -> str | None:
    """Why an engine would not give targets, as labels, the log-probabilities that the model gives, if so."""
    if model.generation_config.renormalize_logits:
        return "the model's search renormalizes its logits"
    start, eos = decoder_start(model), model.config.eos_token_id
    ends = [eos] if isinstance(eos, int) else eos or []
    for row in labels:
        if int(forced_output(model, torch.tensor([row]))[0, 0]) != start:
            return f"targets start from another token than {start}"
        if row[-1] not in ends[:1]:
            return "targets do not end with the end token"
    return None


def encode_with_languages(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    src_lang: str | None,
    tgt_lang: str | None,
) -> tuple[list[str], list[EncodedPair]]:
    """Sources as the model reads them, with the prefix of its task or target language; and the token ids of pairs."""
    prefix = translation_task(model, src_lang=src_lang, tgt_lang=tgt_lang)[1]["prefix"]
    # Given translations can be scored and aligned whatever the model was trained on.
    languages = choose_languages(model, tokenizer, (src_lang, tgt_lang), zero_shot=True)
    marked = marked_sources(model, tokenizer, [source for source, _ in pairs], languages, prefix)
    tokenizer = private_copy(tokenizer)
    for name, code in languages.arguments().items():
        setattr(tokenizer, name, code)
    targets = [normalized(target, tokenizer, is_target=True) for _, target in pairs]
    encoded = tokenizer([normalized(source, tokenizer) for source in marked], text_target=targets)
    return marked, list(zip(encoded["input_ids"], encoded["labels"]))


@torch.inference_mode()
def _score_batch(
    model: PreTrainedModel,
    tokenizer,
    pairs: list[EncodedPair],
    tgt_lang: str | None,
    with_tokens: bool,
    engine: EngineModel | None,
) -> list[PairScore]:
    config = model.generation_config
    sources, labels = zip(*pairs)
    if engine is None:
        chosen = _log_probabilities(model, tokenizer, sources, labels).tolist()
    else:
        chosen = engine.target_log_probabilities(list(sources), [row[:-1] for row in labels])
    # The first token of multilingual models is forced, not chosen: to `generate()`, its probability is 1.
    forced = config.forced_bos_token_id
    if tgt_lang:
        forced = language_id(tokenizer, tgt_lang)
    scores, penalty = [], GenerateArguments(model, {}, {}).scoring().penalty
    for target, values in zip(labels, chosen):
        if forced is not None and target[0] == forced:
            values = [0.0, *values[1:]]
        # mBART's tokenizer puts the language after the end token, where no model looks for it.
        ends = [place + 1 for place, token_id in enumerate(target) if token_id == tokenizer.eos_token_id]
        values = values[: ends[-1] if ends else len(target)]
        total = math.fsum(values)
        tokens = tuple(zip(to_tokens(tokenizer, target, is_target=True), values)) if with_tokens else None
        scores.append(PairScore(total, len(values), total / penalty(len(values)), tokens))
    return scores


def _log_probabilities(
    model: PreTrainedModel, tokenizer, sources: Sequence[list[int]], labels: Sequence[list[int]]
) -> torch.Tensor:
    """The model's log-probabilities of labels, `(batch, target_length)`; on padding they mean nothing."""
    config = model.generation_config
    pad = next(i for i in (tokenizer.pad_token_id, model.config.pad_token_id, 0) if i is not None)
    source_ids, label_ids, mask = (
        pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler).to(model.device)
        for rows, filler in ((sources, pad), (labels, pad), ([[1] * len(source) for source in sources], 0))
    )
    inputs = {"input_ids": source_ids, "attention_mask": mask}
    never: list[int] = []
    if config.renormalize_logits:
        # Tokens such as Marian's padding token are never generated; their probability is shared among the others.
        never = [ids[0] for ids in config.bad_words_ids or [] if len(ids) == 1] + list(config.suppress_tokens or [])
    with evaluation(model) as scorer:
        return token_log_probabilities(scorer, inputs, forced_output(model, label_ids), never)


# Attention weights of all layers and heads are kept, which take more memory than logits.
ALIGNED_TOKENS = 2048


def words_by_spaces(text: str) -> list[Span]:
    """Start and end of each word, up to whitespace."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def align_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    words: Callable[[str], list[Span]] = words_by_spaces,
) -> list[Links | None]:
    """Align the words of pairs.

    The decoder is fed the target (teacher forcing). A target word is linked to each source word that one of its
    tokens is aligned to.

    Args:
        pairs: source and target.
        src_lang, tgt_lang: languages, for multilingual tokenizers.
        words: finds the words of a text.

    Returns:
        For each pair the links (source word, target word), counted from 0; `None` for a pair that has more tokens on
        a side than the model has positions for, or than 1024.

    Raises:
        ValueError: the model has no attention weights, like models of other engines.
    """
    if isinstance(model, EngineModel):
        raise ValueError(f"Alignments need attention weights, which {model.engine_name} does not return.")
    check_target_encoding(tokenizer)
    targets = [target for _, target in pairs]
    marked, encoded = encode_with_languages(model, tokenizer, pairs, src_lang, tgt_lang)
    limit, longest = _token_limit(model, MOST_TOKENS), [max(map(len, pair)) for pair in encoded]
    links: list[Links | None] = [set() for _ in pairs]
    rows = []
    for row, length in enumerate(longest):
        if length > limit:
            links[row] = None
        elif all(encoded[row]):
            rows.append(row)
    rows.sort(key=longest.__getitem__)
    for batch in token_batches(rows, longest.__getitem__, ALIGNED_TOKENS):
        for row, aligned in zip(batch, _align_batch(model, tokenizer, [encoded[row] for row in batch])):
            added = len(marked[row]) - len(pairs[row][0])
            # The marks are not among the tokens that are aligned.
            sides = (("source_tokens", marked[row], len(leading_marks(tokenizer, marked[row]))),
                     ("target_tokens", targets[row], 0))  # fmt: skip
            source_words, target_words = (
                [
                    words_at(words(text), span and (span[0] + start, span[1] + start))
                    for span in token_spans(readable_tokens(tokenizer, aligned[name]), text[start:])
                ]
                for name, text, start in sides
            )
            before = len(words(marked[row][:added]))
            found = {
                (s - before, t) for i, j in aligned["alignment"] for s in source_words[i] for t in target_words[j]
            }
            links[row] = {link for link in found if link[0] >= 0}
    return links


def _align_batch(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: list[tuple[list[int], list[int]]]
) -> list[dict[str, list]]:
    """Tokens and their alignment for each pair of token ids, as in [`align`]."""
    pad = next(i for i in (tokenizer.pad_token_id, model.config.pad_token_id, 0) if i is not None)
    sources, labels = zip(*pairs)
    source_ids, label_ids, mask = (
        pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler).to(model.device)
        for rows, filler in ((sources, pad), (labels, pad), ([[1] * len(row) for row in sources], 0))
    )
    lengths = torch.tensor([[len(row) + 1] for row in labels], device=model.device)
    output_ids = forced_output(model, label_ids).unsqueeze(1)
    inputs = {"input_ids": source_ids, "attention_mask": mask}
    return [aligned for [aligned] in align(model, tokenizer, inputs, output_ids, lengths)]


__all__ = ["PairModel", "PairScore", "align_pairs", "score_pairs"]
