"""The architectures of transformers that are fine-tuned as they are: how their configs name what a run must know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from ..generation.settings import position_limit


@dataclass(frozen=True)
class Family:
    """An architecture other than this package's.

    Attributes:
        fixed: fields of [`VaswaniConfig`] that its config lacks → what they would be.
        names: fields of [`VaswaniConfig`] → their names in its config, where these differ.
    """

    fixed: Mapping[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, field: str) -> str:
        """The name in its config of a field of [`VaswaniConfig`]."""
        return self.names.get(field, field)

    def value(self, config: PreTrainedConfig, field: str) -> Any:
        """The value of a field of [`VaswaniConfig`] in a config of this architecture; `None` if it has none."""
        return getattr(config, self.name(field), self.fixed.get(field))


def _family(norm_position: str, position_type: str, **names: str) -> Family:
    shared = {"share_encoder_decoder_embeddings": True, "label_smoothing": 0.0}
    return Family({"norm_position": norm_position, "position_type": position_type, **shared}, names)


_T5 = _family(
    "pre",
    "relative",
    encoder_layers="num_layers",
    decoder_layers="num_decoder_layers",
    encoder_attention_heads="num_heads",
    decoder_attention_heads="num_heads",
    d_k="d_kv",
    d_v="d_kv",
    encoder_ffn_dim="d_ff",
    decoder_ffn_dim="d_ff",
    dropout="dropout_rate",
    activation_function="dense_act_fn",
)
# By the `model_type` of their configs; NLLB's is that of M2M100.
FAMILIES = {
    "bart": _family("post", "learned"),
    "m2m_100": _family("pre", "sinusoidal"),
    "marian": _family("post", "sinusoidal"),
    "mbart": _family("pre", "learned"),
    "mt5": _T5,
    "t5": _T5,
}


def family_of(config: PreTrainedConfig) -> Family | None:
    """The architecture of a model; `None` for this package's own."""
    return FAMILIES.get(config.model_type)


def config_value(config: PreTrainedConfig, field: str) -> Any:
    """The value of a field of [`VaswaniConfig`] in any model's config; `None` if its architecture has none."""
    family = family_of(config)
    return family.value(config, field) if family else getattr(config, field)


def longest_sequence(model: PreTrainedModel) -> int | None:
    """The number of a model's positions if it has a table of them; `None` for any length."""
    if family_of(model.config) is None:
        return model.config.longest_sequence
    return position_limit(model.get_encoder())
