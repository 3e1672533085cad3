"""Exports a model to another engine: writes it, opens it, compares it with the model, and only then keeps it."""

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError
from ..generation.alignment import to_tokens
from ..generation.settings import position_limit
from ..ledger import new_folder
from ..models.model_files import SHORTLIST_FILE, weights_size
from ..text.languages import LanguagePair, group_languages, language_pairs, own_languages
from .differences import LARGEST_DEVIATION, Difference, differences, logit_deviation, random_sources
from .formats import Format, formats
from .web_page import fetched_runtime, find_runtime, write_page

SHOWN = 3


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    engine: str
    sentences: int  # of the sample
    different: int  # sentences that the engine translates differently; 0 in float32
    size: int  # of the weights, in bytes


def export_model(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    output: str | Path,
    quantization: str | None = None,
    texts: Sequence[str] = (),
    to: str = "ctranslate2",
    runtime: str | Path | None = None,
    shortlist: str | None = None,
) -> Exported:
    """Export a model to a folder for another engine, and check that the engine translates as the model does.

    In float32, the engine must translate every sentence of the sample into the model's own tokens, or into tokens with
    the same log-probability to within 0.001 per token, and the logits of engines that return them must equal the
    model's to within 0.0001; otherwise nothing is left behind. A quantized export is opened and compared too, but may
    differ. All ONNX formats are checked with ONNX Runtime.

    Args:
        output: the folder to create; it may exist only if it is empty.
        quantization: `"int8"`, or for CTranslate2 any of the types in its documentation; `None` for float32, except
            for a web page, where it means int8.
        texts: the sample; by default, sentences of random tokens.
        to: `"marian"`, `"ctranslate2"`, `"onnx"`, `"transformers.js"` or `"web"`.
        runtime: for a web page, a `node_modules` folder, as in `find_runtime`.
        shortlist: for CTranslate2, the target tokens to choose from, as [`learn_shortlist`](shortlist.py) returns it.
            The check is without it.

    Raises:
        InputError: the engine cannot represent the model (lists all features that it cannot), it is not installed,
            it has no shortlists, a sentence of the sample is too long for it, `output` cannot be written, or the
            engine translates differently.
    """
    packages = fetched_runtime(find_runtime(runtime)) if to == "web" else nullcontext()
    with packages as modules, new_folder(output) as folder:
        result = write_checked(model, tokenizer, folder, quantization, texts, to, shortlist)
        if modules:
            write_page(folder, modules, Path(output).resolve().name, *page_languages(model, tokenizer))
        return result


def page_languages(
    model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
) -> tuple[LanguagePair, list[LanguagePair]]:
    """The languages of a model, and its language pairs if it must be given the target, as a page needs them."""
    is_marked = bool(group_languages(tokenizer))
    return own_languages(model.config, tokenizer), language_pairs(model, tokenizer) if is_marked else []


def write_checked(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
    texts: Sequence[str] = (),
    to: str = "ctranslate2",
    shortlist: str | None = None,
) -> Exported:
    """Export and check like [`export_model`], but into an empty folder, which is kept on errors; without the page."""
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise InputError(f"Only models of this package can be exported, not a {type(model).__name__}.")
    target, original = formats()[to], model
    if shortlist and to != "ctranslate2":
        raise InputError(f"Only CTranslate2 has shortlists, not {target.engine}.")
    quantization = quantization or target.quantization
    if model.training or model.dtype != torch.float32:
        model = copy.deepcopy(model).float().eval()
    sources = [tokenizer(text)["input_ids"] for text in texts]
    limit = position_limit(model.get_encoder())
    if limit is None and target.has_position_table:
        limit = model.config.max_position_embeddings
    longer = [
        f"sentence {number} has {len(ids)}" for number, ids in enumerate(sources, 1) if limit and len(ids) > limit
    ]
    if longer:
        raise InputError(
            f"{target.engine} can read at most {limit} tokens with this model, but in the sample, "
            f"{', '.join(longer[:SHOWN])}. Leave out long sentences."
        )
    sources = sources or random_sources(tokenizer, model.config.vocab_size, limit)
    target.write(original if target.keeps_dtype else model, tokenizer, folder, quantization)
    different = _compare(model, tokenizer, folder, target, sources, is_exact=quantization in (None, "float32"))
    if shortlist:
        (folder / SHORTLIST_FILE).write_text(shortlist, encoding="utf-8")
    return Exported(target.engine, len(sources), different, weights_size(folder))


def _compare(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    target: Format,
    sources: Sequence[list[int]],
    is_exact: bool,
) -> int:
    """Count the sentences that the engine translates differently.

    Raises:
        InputError: the export must be exact, but there are such sentences, or the engine's logits differ.
    """
    engine = target.open(folder, model)
    found = differences(model, engine, sources, target.num_beams)
    errors = [_describe(difference, tokenizer, target.engine) for difference in found[:SHOWN]]
    deviation = logit_deviation(model, engine, sources) if is_exact and target.has_logits else 0.0
    if not deviation <= LARGEST_DEVIATION:
        errors.append(
            f"{target.engine} gives logits that differ from the model's by up to {deviation:.3g}. Nothing was written."
        )
    if is_exact and errors:
        raise InputError.of(errors)
    return len(found)


def _describe(difference: Difference, tokenizer: PreTrainedTokenizerBase, engine: str) -> str:
    source = " ".join(to_tokens(tokenizer, difference.source))
    return (
        f"{engine} translates {source!r} as tokens {difference.got}; the model gives {difference.expected}, whose "
        f"log-probability per token is {difference.loss:.3g} higher. Nothing was written."
    )
