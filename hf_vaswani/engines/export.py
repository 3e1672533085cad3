"""Exports a model to another engine: written, opened, compared with the model, and only then left behind."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..core.pipeline_inputs import own_languages, position_limit
from ..errors import InputError
from ..files import check_new, new_folder
from .folders import weights_size
from .formats import FORMATS, Format
from .verify import LARGEST_DEVIATION, Difference, differences, logit_deviation, random_sources
from .web_page import write_page
from .web_runtime import fetched_runtime, find_runtime

SHOWN = 3


@dataclass(frozen=True)
class Exported:
    """What came of an export.

    Attributes:
        engine: that it is for.
        sentences: of the sample that both translated.
        different: those that the engine translates otherwise; none of them in float32.
        size: bytes of the weights.
    """

    engine: str
    sentences: int
    different: int
    size: int


def export_model(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    output: str | Path,
    quantization: str | None = None,
    texts: Sequence[str] = (),
    to: str = "ctranslate2",
    runtime: str | Path | None = None,
) -> Exported:
    """Write a folder for another engine that translates as the model does.

    In float32 every sentence of the sample must have the model's own tokens, or others that are as probable to the
    third decimal, and the logits of the engines that give them must be the model's to the fourth; otherwise nothing is
    left behind. A quantized folder is opened and compared too, and may differ. Engines of ONNX are checked with ONNX
    Runtime.

    Args:
        output: folder to create; it may exist only if empty.
        quantization: `"int8"`, or for CTranslate2 another of the types in its documentation; `None` for float32, and
            for a web page for int8.
        texts: the sample; default: sentences of random tokens.
        to: `"marian"`, `"ctranslate2"`, `"onnx"`, `"transformers.js"` or `"web"`.
        runtime: for a web page, a folder `node_modules` as of `find_runtime`.

    Raises:
        InputError: lists everything that the engine cannot express; or it is not installed, `output` cannot be
            written, or the engine translates otherwise.
    """
    check_new(output)
    if to != "web":
        with new_folder(output) as folder:
            return write_checked(model, tokenizer, folder, quantization, texts, to)
    languages = [code for code in own_languages(model.config, tokenizer) if code]
    with fetched_runtime(find_runtime(runtime)) as modules, new_folder(output) as folder:
        result = write_checked(model, tokenizer, folder, quantization, texts, to)
        write_page(folder, modules, Path(output).resolve().name, languages)
        return result


def write_checked(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
    texts: Sequence[str] = (),
    to: str = "ctranslate2",
) -> Exported:
    """The same into an empty folder, which is not removed if the engine translates otherwise; without a web page."""
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise InputError(f"Only models of this package can be exported, not a {type(model).__name__}.")
    target, original = FORMATS[to], model
    quantization = quantization or target.quantization
    if model.training or model.dtype != torch.float32:
        model = copy.deepcopy(model).float().eval()
    sources = [tokenizer(text)["input_ids"] for text in texts]
    sources = sources or random_sources(tokenizer, model.config.vocab_size, position_limit(model.get_encoder()))
    target.write(original if target.keeps_dtype else model, tokenizer, folder, quantization)
    different = _compare(model, tokenizer, folder, target, sources, is_exact=quantization in (None, "float32"))
    return Exported(target.engine, len(sources), different, weights_size(folder))


def _compare(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    target: Format,
    sources: Sequence[list[int]],
    is_exact: bool,
) -> int:
    """The number of sentences that the engine translates otherwise.

    Raises:
        InputError: where there are any, or its logits are others, and neither may be.
    """
    engine = target.open(folder, model)
    found = differences(model, engine, sources, target.num_beams)
    errors = [_in_words(difference, tokenizer, target.engine) for difference in found[:SHOWN]]
    if (
        is_exact
        and target.has_logits
        and not (deviation := logit_deviation(model, engine, sources)) <= LARGEST_DEVIATION
    ):
        errors.append(
            f"{target.engine} gives logits that differ from the model's by up to {deviation:.3g}. Nothing was written."
        )
    if is_exact and errors:
        raise InputError.of(errors)
    return len(found)


def _in_words(difference: Difference, tokenizer: PreTrainedTokenizerBase, engine: str) -> str:
    source = tokenizer.decode(difference.source)
    return (
        f"{engine} translates {source!r} by tokens {difference.got}, the model by {difference.expected}, whose "
        f"log-probability per token is {difference.loss:.3g} higher. Nothing was written."
    )


__all__ = ["Exported", "export_model", "write_checked"]
