"""Exports a model to another engine: written, opened, compared with the model, and only then left behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoModelForSeq2SeqLM, PreTrainedTokenizerBase

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError
from ..files import check_new, new_folder
from . import ctranslate2_export
from .verify import Difference, differences, random_sources

SHOWN = 3


@dataclass(frozen=True)
class Exported:
    """What came of an export.

    Attributes:
        sentences: of the sample that both translated.
        different: those that the engine translates otherwise; none of them in float32.
        size: bytes of the folder.
    """

    sentences: int
    different: int
    size: int


def export_model(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    output: str | Path,
    quantization: str | None = None,
    texts: Sequence[str] = (),
) -> Exported:
    """Write a folder of CTranslate2 that translates as the model does.

    In float32 every sentence of the sample must have the model's own tokens by beam search, or others that are as
    probable to the third decimal; otherwise nothing is left behind. A quantized folder is opened and compared too, and
    may differ.

    Args:
        output: folder to create; it may exist only if empty.
        quantization: such as `"int8"`, see CTranslate2's documentation; `None` for float32.
        texts: the sample; default: sentences of random tokens.

    Raises:
        InputError: lists everything that CTranslate2 cannot express; or it is not installed, `output` cannot be
            written, or the engine translates otherwise.
    """
    check_new(output)
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise InputError(f"Only models of this package can be exported, not a {type(model).__name__}.")
    sources = [tokenizer(text)["input_ids"] for text in texts] or random_sources(tokenizer, model.config.vocab_size)
    with new_folder(output) as folder:
        ctranslate2_export.write(model, tokenizer, folder, quantization)
        engine = AutoModelForSeq2SeqLM.from_pretrained(folder)
        found = differences(model, engine, sources)
        if found and quantization in (None, "float32"):
            raise InputError.of([_in_words(difference, tokenizer) for difference in found[:SHOWN]])
        del engine
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Exported(len(sources), len(found), size)


def _in_words(difference: Difference, tokenizer: PreTrainedTokenizerBase) -> str:
    source = tokenizer.decode(difference.source)
    return (
        f"CTranslate2 translates {source!r} by tokens {difference.got}, the model by {difference.expected}, whose "
        f"log-probability per token is {difference.loss:.3g} higher. Nothing was written."
    )


__all__ = ["Exported", "export_model"]
