"""The configuration of a Vaswani model: every choice of architecture, with the paper's base model as default.

Field names are those of Bart and Marian, so that converters, adapters and readers know them. The file travels
with each checkpoint as remote code and therefore imports nothing but transformers and its dependencies.
"""

import copy
from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

# Where the Auto classes and `pipeline` find the classes of a checkpoint when this package is not installed.
REMOTE_CLASSES = {
    "AutoConfig": "configuration_vaswani.VaswaniConfig",
    "AutoModel": "modeling_vaswani.VaswaniModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
}
REMOTE_PIPELINES = {
    "translation": {"impl": "pipeline_translation.TranslationPipeline", "pt": ["AutoModelForSeq2SeqLM"]},
}
IS_REMOTE_CODE = __name__.startswith("transformers_modules.")


@strict
class VaswaniConfig(PreTrainedConfig):
    r"""The architecture of an encoder–decoder Transformer (Vaswani et al. 2017, "Attention Is All You Need").

    The defaults are the base model of Table 3: 6 + 6 layers, d_model 512, 8 heads, inner width 2048.

    Args:
        vocab_size (`int`): number of source tokens, and of target tokens where the vocabulary is joint.
        decoder_vocab_size (`int`, *optional*): number of target tokens. Defaults to `vocab_size`; another number
            needs `share_encoder_decoder_embeddings=False`.
        d_model (`int`): width of embeddings, sub-layer outputs and residual connections (section 3.1).
        encoder_layers, decoder_layers (`int`): number of layers N of each stack.
        encoder_attention_heads, decoder_attention_heads (`int`): number of heads h; each divides `d_model`.
        encoder_ffn_dim, decoder_ffn_dim (`int`): inner width d_ff of the feed-forward networks (section 3.3).
        activation_function (`str`): name of the feed-forward networks' activation in transformers' `ACT2FN`.
        dropout (`float`): rate on each sub-layer's output and on embeddings plus positions (section 5.4).
        attention_dropout (`float`): rate on the attention weights.
        activation_dropout (`float`): rate inside the feed-forward networks, after the activation.
        label_smoothing (`float`): epsilon of the training loss (section 5.4): the right token's target
            probability is 1 - epsilon + epsilon / V, every other token's epsilon / V. Evaluation does not smooth.
        norm_position (`"post"` or `"pre"`): `"post"` is the paper's LayerNorm(x + Sublayer(x)); `"pre"` is
            x + Sublayer(LayerNorm(x)) with one more LayerNorm at the end of each stack.
        layer_norm_eps (`float`): added to the variance in every LayerNorm.
        position_type (`"sinusoidal"` or `"learned"`): sinusoids reach any length; learned positions end at
            `max_position_embeddings`.
        sinusoid_layout (`"interleaved"` or `"halves"`): `"interleaved"` is the paper's sin, cos, sin, cos, …;
            `"halves"` has all the sines, then all the cosines.
        sinusoid_exponent (`"paper"` or `"tensor2tensor"`): frequency i is 10000^(-2i/d), or in tensor2tensor
            and fairseq 10000^(-i/(d/2 - 1)).
        max_position_embeddings (`int`): size of the learned position tables; no limit for sinusoids.
        scale_embedding (`bool`): multiply embeddings by sqrt(d_model) (section 3.4).
        share_encoder_decoder_embeddings (`bool`): source and target share one embedding matrix.
        tie_word_embeddings (`bool`): the target embedding matrix is also the softmax projection.
        attention_bias (`bool`): biases in the query, key, value and output projections.
        output_bias (`bool`): a bias on the logits.
        use_cache (`bool`): keep keys and values while generating.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id (`int`): special tokens;
            `decoder_start_token_id` defaults to `bos_token_id`.

    Raises:
        `ValueError`: values that contradict each other, all of them in one message.

    Example:

    ```python
    >>> from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration

    >>> model = VaswaniForConditionalGeneration(VaswaniConfig())
    >>> model.num_parameters()
    63082496
    ```
    """

    model_type = "vaswani"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
        "num_attention_heads": "encoder_attention_heads",
    }

    vocab_size: int = 37000
    decoder_vocab_size: int | None = None
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 8
    decoder_attention_heads: int = 8
    encoder_ffn_dim: int = 2048
    decoder_ffn_dim: int = 2048
    activation_function: str = "relu"
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    label_smoothing: float | int = 0.1
    norm_position: Literal["post", "pre"] = "post"
    layer_norm_eps: float = 1e-5
    position_type: Literal["sinusoidal", "learned"] = "sinusoidal"
    sinusoid_layout: Literal["interleaved", "halves"] = "interleaved"
    sinusoid_exponent: Literal["paper", "tensor2tensor"] = "paper"
    max_position_embeddings: int = 1024
    scale_embedding: bool = True
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    attention_bias: bool = True
    output_bias: bool = False
    use_cache: bool = True
    is_encoder_decoder: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs):
        if self.decoder_vocab_size is None:
            self.decoder_vocab_size = self.vocab_size
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.bos_token_id
        # A checkpoint names its remote classes whoever saved it. Only where it runs as remote code may the config
        # show its pipeline: with the package installed the task is registered, and `pipeline` would otherwise
        # insist on `trust_remote_code`.
        kwargs.pop("custom_pipelines", None)
        kwargs["auto_map"] = {**(kwargs.get("auto_map") or {}), **REMOTE_CLASSES}
        super().__post_init__(**kwargs)
        self.validate_architecture()
        if IS_REMOTE_CODE:
            self.custom_pipelines = copy.deepcopy(REMOTE_PIPELINES)  # `pipeline` writes into it

    def to_dict(self) -> dict:
        return {**super().to_dict(), "custom_pipelines": copy.deepcopy(REMOTE_PIPELINES)}

    def validate_architecture(self):
        """Refuse values that contradict each other, naming all of them at once. Saving checks them again."""
        faults = _architecture_faults(self)
        if faults:
            raise ValueError("VaswaniConfig: " + "; ".join(faults))


def _architecture_faults(config: VaswaniConfig) -> list[str]:
    faults = []
    for name in (
        "vocab_size",
        "decoder_vocab_size",
        "d_model",
        "encoder_layers",
        "decoder_layers",
        "encoder_attention_heads",
        "decoder_attention_heads",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
        "max_position_embeddings",
    ):
        if getattr(config, name) < 1:
            faults.append(f"{name} must be at least 1, got {getattr(config, name)}")
    for name in ("encoder_attention_heads", "decoder_attention_heads"):
        heads = getattr(config, name)
        if heads >= 1 and config.d_model % heads:
            faults.append(f"{name}={heads} does not divide d_model={config.d_model}")
    for name in ("dropout", "attention_dropout", "activation_dropout", "label_smoothing"):
        if not 0 <= getattr(config, name) < 1:
            faults.append(f"{name} must be in [0, 1), got {getattr(config, name)}")
    if config.position_type == "sinusoidal" and config.d_model % 2:
        faults.append(f"sinusoidal positions need an even d_model, got {config.d_model}")
    if config.activation_function not in ACT2FN:
        faults.append(f"activation_function={config.activation_function!r} is not known to transformers")
    smaller = min(config.vocab_size, config.decoder_vocab_size)
    if config.pad_token_id is not None and not 0 <= config.pad_token_id < smaller:
        faults.append(f"pad_token_id={config.pad_token_id} is outside a vocabulary of {smaller} tokens")
    if config.share_encoder_decoder_embeddings and config.decoder_vocab_size != config.vocab_size:
        faults.append(
            f"decoder_vocab_size={config.decoder_vocab_size} differs from vocab_size={config.vocab_size}: "
            "separate vocabularies need share_encoder_decoder_embeddings=False"
        )
    return faults


__all__ = ["VaswaniConfig"]
