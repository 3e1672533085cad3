"""The config of a model in CTranslate2 format, as transformers reads it from the folder's `config.json`."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from ..backends import CTRANSLATE2

MODEL_TYPE = CTRANSLATE2.model_type


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
    language_pairs: list | None = None
    weights_digest: str | None = None
    add_source_bos: bool = False
    add_source_eos: bool = False
    longest_training_source: int | None = None
    multi_sentence_share: float | int | None = None
    length_ratio: float | int | None = None
    confidence: dict | None = None
