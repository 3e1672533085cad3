"""The config of a model in CTranslate2 format, as transformers reads it from the folder's `config.json`."""

from pathlib import Path

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

MODEL_TYPE = "vaswani_ctranslate2"
COMPUTE_TYPES = (
    "float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16",
)  # fmt: skip


@strict
class CTranslate2Config(PreTrainedConfig):
    """CTranslate2's own fields, and the sizes, special tokens, languages and training text of the exported model.

    `weights_digest` is the SHA-256 of the exported model's weights.
    """

    model_type = MODEL_TYPE
    is_encoder_decoder: bool = True

    vocab_size: int = 0
    decoder_vocab_size: int = 0
    max_position_embeddings: int = 0
    source_language: str | None = None
    target_language: str | None = None
    weights_digest: str | None = None
    add_source_bos: bool = False
    add_source_eos: bool = False
    longest_training_source: int | None = None
    multi_sentence_share: float | int | None = None
    length_ratio: float | int | None = None
    confidence: dict | None = None


def is_engine_folder(folder: Path) -> bool:
    """Whether a folder holds CTranslate2 weights."""
    return (folder / "model.bin").exists() and any(folder.glob("*_vocabulary.json"))
