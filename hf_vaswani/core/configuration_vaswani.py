"""The configuration of a Vaswani model: every architectural choice, with the paper's base model as the default.

Field names follow Bart and Marian, so converters, adapters and readers already know them.
"""

import copy
import dataclasses
import difflib
import re
from typing import ClassVar

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

# Where the Auto classes and `pipeline` find the classes of a checkpoint when this package is not installed.
REMOTE_CLASSES = {
    "AutoConfig": "configuration_vaswani.VaswaniConfig",
    "AutoModel": "modeling_vaswani.VaswaniModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
}
REMOTE_PIPELINES = {
    "translation": {"impl": "pipeline_translation.TranslationPipeline", "pt": ["AutoModelForSeq2SeqLM"]},
}
# Incremented when a field or a value is added that older code would misread.
FORMAT_VERSION = 1
# Attributes of the class that a file may replace.
CLASS_DICTS = ("attribute_map", *(f"base_model_{kind}_plan" for kind in ("tp", "ep", "pp", "fsdp")))
IS_REMOTE_CODE = __name__.startswith("transformers_modules.")


class RemotePipelines(dict):
    """Pipelines by task; the entry "translation" also serves tasks such as "translation_de_to_en"."""

    def __contains__(self, task) -> bool:
        return super().__contains__(task) or _is_translation(task)

    def __missing__(self, task) -> dict:
        if _is_translation(task):
            return self["translation"]
        raise KeyError(task)


def _is_translation(task) -> bool:
    return re.fullmatch(r"translation_\w+_to_\w+", str(task)) is not None


@strict
class VaswaniConfig(PreTrainedConfig):
    r"""The architecture of an encoder–decoder Transformer (Vaswani et al. 2017, "Attention Is All You Need").

    The defaults are the base model of Table 3: 6 + 6 layers, d_model 512, 8 heads, inner width 2048.

    Args:
        vocab_size (`int`): number of source tokens, and of target tokens if the vocabulary is joint.
        decoder_vocab_size (`int`, *optional*): number of target tokens. Defaults to `vocab_size`; another number
            needs `share_encoder_decoder_embeddings=False`.
        d_model (`int`): width of embeddings, sub-layer outputs and residual connections (section 3.1).
        encoder_layers, decoder_layers (`int`): number of layers N of each stack.
        encoder_attention_heads, decoder_attention_heads (`int`): number of heads h; each divides `d_model`, unless
            both `d_k` and `d_v` are given.
        encoder_ffn_dim, decoder_ffn_dim (`int`): inner width d_ff of the feed-forward networks (section 3.3).
        d_k, d_v (`int`, *optional*): width of each head's keys and of its values (section 3.2.2; rows B of Table 3).
            Default to `d_model` divided by the number of heads.
        activation_function (`str`): name of the feed-forward networks' activation in transformers' `ACT2FN`.
        dropout (`float`): rate on each sub-layer's output (section 5.4).
        embedding_dropout (`float`, *optional*): rate on embeddings plus positions. Defaults to `dropout`, since
            the paper uses one rate for both.
        attention_dropout (`float`): rate on the attention weights.
        activation_dropout (`float`): rate inside the feed-forward networks, after the activation.
        encoder_word_dropout, decoder_word_dropout (`float`): rate at which whole embeddings of source and of target
            tokens are zeroed in training, the others divided by 1 - rate, before their positions are added (Gal and
            Ghahramani 2016, section 4.2; here each token of a text by itself). Marian's `--dropout-src` and
            `--dropout-trg`.
        encoder_layerdrop, decoder_layerdrop (`float`): rate at which whole layers are left out in training (Fan et
            al. 2020). With several processes DDP then needs `find_unused_parameters`.
        label_smoothing (`float`): epsilon of the training loss (section 5.4): the right token's target
            probability is 1 - epsilon + epsilon / V, every other token's epsilon / V. Evaluation does not smooth.
        norm_position (`"post"` or `"pre"`): `"post"` is the paper's LayerNorm(x + Sublayer(x)); `"pre"` is
            x + Sublayer(LayerNorm(x)).
        final_norm (`bool`, *optional*): one more LayerNorm at the end of each stack. Defaults to `True`
            with `norm_position="pre"`, which needs it.
        layer_norm_eps (`float`): added to the variance in every LayerNorm.
        position_type (`"sinusoidal"`, `"learned"` or `"none"`): sinusoids reach any length; learned positions end at
            `max_position_embeddings`; with `"none"` the embeddings are used as they are.
        sinusoid_layout (`"interleaved"` or `"halves"`): `"interleaved"` is the paper's sin, cos, sin, cos, …;
            `"halves"` has all the sines, then all the cosines.
        sinusoid_exponent (`"paper"` or `"tensor2tensor"`): frequency i is 10000^(-2i/d), or in tensor2tensor
            and fairseq 10000^(-i/(d/2 - 1)).
        sinusoid_offset (`int`): number of the first position; 0 everywhere but in fairseq, which begins with
            `pad_token_id + 1`.
        positions_skip_padding (`bool`): only tokens other than `pad_token_id` are counted, and padding gets a zero
            vector for its position, as in fairseq. Otherwise padding on the left moves the text to later positions.
        max_position_embeddings (`int`): size of the learned position tables; no limit for sinusoids.
        scale_embedding (`bool`): multiply embeddings by sqrt(d_model) (section 3.4).
        share_encoder_decoder_embeddings (`bool`): source and target share one embedding matrix.
        tie_word_embeddings (`bool`): the target embedding matrix is also the output projection.
        decoder_start_embedding (`"token"` or `"zero"`): what the decoder reads for `decoder_start_token_id`: that
            token's embedding, or a zero vector as in tensor2tensor and Marian.
        attention_bias (`bool`): biases in the query, key, value and output projections.
        ffn_bias (`bool`): biases in the feed-forward networks.
        output_bias (`bool`): a bias on the logits.
        qkv_init_gain (`float`): factor on the Xavier-uniform weights (Glorot and Bengio 2010) of new query, key and
            value projections. 1 / sqrt(2) in fairseq and in PyTorch, which initialize the three as one matrix.
        source_language, target_language (`str`, *optional*): codes of the languages that the model translates from
            and into. Training and import set them if they are known; the translation pipeline then refuses others.
        language_pairs (`list[list[str]]`, *optional*): of a model for several language pairs, the codes of source and
            target language of each.
        longest_training_source (`int`, *optional*): number of tokens in the longest source of the training text.
        multi_sentence_share (`float`, *optional*): share of the sources of the training text that have several
            sentences. Training sets both, from which the pipeline knows which texts it must split into sentences.
        length_ratio (`float`, *optional*): size of the training text's targets divided by the size of its sources,
            both in UTF-8. Training sets it; the pipeline warns of translations that are far shorter or longer.
        alignment_heads (`list[list[int]]`, *optional*): heads of the cross-attention that align words, each as
            [decoder layer, head], counted from 0. Training with `guided_alignment` sets it; alignments are then read
            off the mean of these heads.
        confidence (`dict`, *optional*): weights by which the translation pipeline estimates the quality of its
            translations, see `generation/confidence.py`. `hf-vaswani calibrate` sets them.
        use_cache (`bool`): keep keys and values while generating.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id (`int`): special tokens;
            `decoder_start_token_id` defaults to `bos_token_id`.
        format_version (`int`): version of the config's format; a version newer than the code's is refused.

    The sinusoid fields have no effect with other positions, nor does `max_position_embeddings` without learned ones.
    They are kept, so that changing `position_type` alone switches to other positions.

    Raises:
        `ValueError`: values are invalid or conflict; the message lists all errors.

    Example:

    ```python
    >>> from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration

    >>> model = VaswaniForConditionalGeneration(VaswaniConfig())
    >>> model.num_parameters()
    63082496
    ```
    """

    model_type = "vaswani"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values", "cache"]
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
        "num_attention_heads": "encoder_attention_heads",
    }
    # Each process of a tensor-parallel group holds part of the heads, of the inner width and of the vocabulary.
    base_model_tp_plan: ClassVar[dict[str, str]] = {
        "shared": "embedding_rowwise",
        "encoder.embed_tokens": "embedding_rowwise",
        "encoder.layers.*.self_attn.q_proj": "colwise",
        "encoder.layers.*.self_attn.k_proj": "colwise",
        "encoder.layers.*.self_attn.v_proj": "colwise",
        "encoder.layers.*.self_attn.out_proj": "rowwise",
        "encoder.layers.*.fc1": "colwise",
        "encoder.layers.*.fc2": "rowwise",
        "decoder.embed_tokens": "embedding_rowwise",
        "decoder.layers.*.self_attn.q_proj": "colwise",
        "decoder.layers.*.self_attn.k_proj": "colwise",
        "decoder.layers.*.self_attn.v_proj": "colwise",
        "decoder.layers.*.self_attn.out_proj": "rowwise",
        "decoder.layers.*.encoder_attn.q_proj": "colwise",
        "decoder.layers.*.encoder_attn.k_proj": "colwise",
        "decoder.layers.*.encoder_attn.v_proj": "colwise",
        "decoder.layers.*.encoder_attn.out_proj": "rowwise",
        "decoder.layers.*.fc1": "colwise",
        "decoder.layers.*.fc2": "rowwise",
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
    d_k: int | None = None
    d_v: int | None = None
    activation_function: str = "relu"
    dropout: float | int = 0.1
    embedding_dropout: float | int | None = None
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    encoder_word_dropout: float | int = 0.0
    decoder_word_dropout: float | int = 0.0
    encoder_layerdrop: float | int = 0.0
    decoder_layerdrop: float | int = 0.0
    label_smoothing: float | int = 0.1
    norm_position: str = "post"
    final_norm: bool | None = None
    layer_norm_eps: float | int = 1e-5
    position_type: str = "sinusoidal"
    sinusoid_layout: str = "interleaved"
    sinusoid_exponent: str = "paper"
    sinusoid_offset: int = 0
    positions_skip_padding: bool = False
    max_position_embeddings: int = 1024
    scale_embedding: bool = True
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    decoder_start_embedding: str = "token"
    attention_bias: bool = True
    ffn_bias: bool = True
    output_bias: bool = False
    qkv_init_gain: float | int = 1.0
    source_language: str | None = None
    target_language: str | None = None
    language_pairs: list[list[str]] | None = None
    longest_training_source: int | None = None
    multi_sentence_share: float | int | None = None
    length_ratio: float | int | None = None
    alignment_heads: list[list[int]] | None = None
    confidence: dict | None = None
    use_cache: bool = True
    is_encoder_decoder: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self, **kwargs):
        if self.decoder_vocab_size is None:
            self.decoder_vocab_size = self.vocab_size
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.bos_token_id
        # A checkpoint names its remote classes no matter who saved it. But the config may show its pipeline only when
        # it runs as remote code: with the package installed, the task is registered, and `pipeline` would otherwise
        # insist on `trust_remote_code`.
        kwargs.pop("custom_pipelines", None)
        _refuse_misspelled_fields(kwargs)
        kwargs["auto_map"] = {**(kwargs.get("auto_map") or {}), **REMOTE_CLASSES}
        super().__post_init__(**kwargs)
        self.validate_architecture()
        if IS_REMOTE_CODE:
            self.custom_pipelines = RemotePipelines(copy.deepcopy(REMOTE_PIPELINES))  # `pipeline` writes into it

    @property
    def longest_sequence(self) -> int | None:
        """The maximum number of tokens in a sequence: the number of learned positions, or `None` without a limit."""
        return self.max_position_embeddings if self.position_type == "learned" else None

    @classmethod
    def from_dict(cls, config_dict: dict, **kwargs):
        """Make a config from a dict, as in transformers, after checking its format version.

        Raises:
            `ValueError`: a newer version of this package wrote the config, or it belongs to another kind of model.
        """
        if not config_dict:
            raise ValueError(
                "There is no config.json. Load a model's folder: for a training run, the one above its checkpoints."
            )
        if (kind := config_dict.get("model_type", cls.model_type)) != cls.model_type:
            raise ValueError(f"This is a {kind} model, not a {cls.model_type} model. Convert it: hf-vaswani import")
        version = config_dict.get("format_version", FORMAT_VERSION)
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise ValueError(
                f"This VaswaniConfig has format_version {version}, written by a newer hf_vaswani; this one reads up "
                f"to {FORMAT_VERSION}. Update the package: pip install --upgrade hf_vaswani"
            )
        dicts = {name: config_dict.get(name) for name in CLASS_DICTS}
        if wrong := [name for name, value in dicts.items() if not isinstance(value, dict | None)]:
            raise ValueError(f"VaswaniConfig: {wrong[0]} must be a dict, got {dicts[wrong[0]]!r}")
        # Keys that others wrote into a file are kept, whatever their names; only arguments are checked.
        others = {name: value for name, value in config_dict.items() if _meant_field(name)}
        loaded = super().from_dict({n: v for n, v in config_dict.items() if n not in others}, **kwargs)
        config = loaded[0] if isinstance(loaded, tuple) else loaded
        for name, value in others.items():
            setattr(config, name, value)
        return loaded

    def to_dict(self) -> dict:
        return {**super().to_dict(), "custom_pipelines": copy.deepcopy(REMOTE_PIPELINES)}

    def validate_architecture(self):
        """Refuse invalid or conflicting values, naming all of them at once. Saving checks them again."""
        errors = _architecture_errors(self)
        if errors:
            raise ValueError("VaswaniConfig: " + "; ".join(errors))


# Field of this config → what other toolkits call it.
FOREIGN_NAMES = {
    "encoder_layers and decoder_layers": "layers num_layers n_layers num_encoder_layers num_decoder_layers"
    " enc_layers dec_layers enc_depth dec_depth num_hidden_layers",
    "encoder_attention_heads and decoder_attention_heads": "heads nhead n_heads n_head num_heads num_attention_heads",
    "encoder_ffn_dim and decoder_ffn_dim": "encoder_ffn_embed_dim decoder_ffn_embed_dim dim_feedforward transformer_ff"
    " d_ff dff ffn_dim ffn_hidden intermediate_size",
    "d_model": "encoder_embed_dim decoder_embed_dim embed_dim rnn_size word_vec_size dim_emb n_embd hidden_size",
    "norm_position": "encoder_normalize_before decoder_normalize_before normalize_before norm_first pre_norm prenorm",
    "position_type": "encoder_learned_pos decoder_learned_pos learned_positions position_embedding_type",
    "share_encoder_decoder_embeddings": "share_all_embeddings share_embeddings",
    "tie_word_embeddings": "share_decoder_input_output_embed share_decoder_embeddings tie_embeddings",
    "layer_norm_eps": "layer_norm_epsilon norm_eps",
    "label_smoothing": "label_smooth label_smoothing_factor",
    "activation_function": "activation activation_fn pos_ffn_activation_fn hidden_act",
    "activation_dropout": "relu_dropout",
    "encoder_word_dropout": "dropout_src src_word_dropout",
    "decoder_word_dropout": "dropout_trg tgt_word_dropout",
    "max_position_embeddings": "max_positions max_source_positions max_target_positions",
    "vocab_size and decoder_vocab_size": "src_vocab_size tgt_vocab_size",
}
MEANINGS = {name: meant for meant, foreign in FOREIGN_NAMES.items() for name in foreign.split()}


def _meant_field(name: str) -> str | None:
    """The field that an unknown name may mean: one that other toolkits call that, or one with a similar name."""
    names = [field.name for field in dataclasses.fields(VaswaniConfig)]
    if name in names or name in VaswaniConfig.attribute_map:
        return None
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.9)
    return MEANINGS.get(name) or (close[0] if close else None)


def _refuse_misspelled_fields(unknown: dict) -> None:
    """Refuse misspelled fields: transformers would keep them as attributes, and the model would be a different one."""
    meant = {name: _meant_field(name) for name in unknown}
    errors = [f"{name} is not a field; use {field}" for name, field in meant.items() if field]
    if errors:
        raise ValueError("VaswaniConfig: " + "; ".join(errors))


CHOICES = {
    "norm_position": ("post", "pre"),
    "position_type": ("sinusoidal", "learned", "none"),
    "sinusoid_layout": ("interleaved", "halves"),
    "sinusoid_exponent": ("paper", "tensor2tensor"),
    "decoder_start_embedding": ("token", "zero"),
}
# Whole numbers with their minimum and maximum; beyond the maximum, a model cannot be built, or takes days.
RANGES = {
    "vocab_size": (1, 10_000_000),
    "decoder_vocab_size": (1, 10_000_000),
    "d_model": (1, 1_000_000),
    "encoder_layers": (1, 1000),
    "decoder_layers": (1, 1000),
    "encoder_attention_heads": (1, 10_000),
    "decoder_attention_heads": (1, 10_000),
    "encoder_ffn_dim": (1, 10_000_000),
    "decoder_ffn_dim": (1, 10_000_000),
    "d_k": (1, 1_000_000),
    "d_v": (1, 1_000_000),
    "sinusoid_offset": (0, 10_000_000),
    "max_position_embeddings": (1, 10_000_000),
}
LARGEST_GAIN = 1000
RATES = (
    "dropout",
    "embedding_dropout",
    "attention_dropout",
    "activation_dropout",
    "encoder_word_dropout",
    "decoder_word_dropout",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "label_smoothing",
)


def _architecture_errors(config: VaswaniConfig) -> list[str]:
    errors = [] if config.is_encoder_decoder else ["is_encoder_decoder must be true"]
    for name, choices in CHOICES.items():
        if getattr(config, name) not in choices:
            errors.append(f"{name} must be one of {', '.join(choices)}, got {getattr(config, name)!r}")
    for name, (least, most) in RANGES.items():
        value = getattr(config, name)
        if value is not None and not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most:,}"
            errors.append(f"{name} must be {bound}, got {value}")
    for name in RATES:
        value = getattr(config, name)
        if value is not None and not 0 <= value < 1:
            errors.append(f"{name} must be in [0, 1), got {value}")
    for pair in config.language_pairs or []:
        if len(pair) != 2 or not all(pair):
            errors.append(f"language_pairs must be pairs of source and target language, got {pair}")
    if config.longest_training_source is not None and config.longest_training_source < 1:
        errors.append(f"longest_training_source must be at least 1, got {config.longest_training_source}")
    if config.multi_sentence_share is not None and not 0 <= config.multi_sentence_share <= 1:
        errors.append(f"multi_sentence_share must be in [0, 1], got {config.multi_sentence_share}")
    if config.length_ratio is not None and not 0 < config.length_ratio < float("inf"):
        errors.append(f"length_ratio must be above 0 and finite, got {config.length_ratio}")
    for pair in config.alignment_heads or []:
        sizes = config.decoder_layers, config.decoder_attention_heads
        if len(pair) != 2 or not all(0 <= number < size for number, size in zip(pair, sizes)):
            errors.append(f"alignment_heads must be pairs of a decoder layer and one of its heads, got {pair}")
    if not 0 < config.layer_norm_eps <= 1:
        errors.append(f"layer_norm_eps must be above 0 and at most 1, got {config.layer_norm_eps}")
    if not 0 < config.qkv_init_gain <= LARGEST_GAIN:
        errors.append(f"qkv_init_gain must be above 0 and at most {LARGEST_GAIN}, got {config.qkv_init_gain}")
    for name in ("encoder_attention_heads", "decoder_attention_heads"):
        heads = getattr(config, name)
        if None in (config.d_k, config.d_v) and heads >= 1 and config.d_model % heads:
            error = f"{name}={heads} does not divide d_model={config.d_model}"
            errors.append(f"{error}, and d_k and d_v are not both given")
    from transformers.activations import ACT2FN  # takes a second to import

    if config.activation_function not in ACT2FN:
        errors.append(f"activation_function={config.activation_function!r} is not known to transformers")
    if config.share_encoder_decoder_embeddings and config.decoder_vocab_size != config.vocab_size:
        errors.append(
            f"decoder_vocab_size={config.decoder_vocab_size} differs from vocab_size={config.vocab_size}: "
            "separate vocabularies need share_encoder_decoder_embeddings=False"
        )
    return errors + _position_errors(config) + _special_token_errors(config)


def _position_errors(config: VaswaniConfig) -> list[str]:
    errors = []
    if config.position_type == "sinusoidal" and config.d_model % 2:
        errors.append(f"sinusoidal positions need an even d_model, got {config.d_model}")
    if config.positions_skip_padding and config.pad_token_id is None:
        errors.append("positions_skip_padding needs a pad_token_id")
    if config.positions_skip_padding and config.pad_token_id == config.decoder_start_token_id:
        errors.append(
            f"positions_skip_padding needs a decoder_start_token_id other than pad_token_id={config.pad_token_id}, "
            "else the decoder's first token has no position"
        )
    return errors


def _special_token_errors(config: VaswaniConfig) -> list[str]:
    """Errors for special tokens outside the vocabularies: padding must be in both, the others in the target's."""
    sizes = [("vocab_size", config.vocab_size), ("decoder_vocab_size", config.decoder_vocab_size)]
    smaller, target = min(sizes, key=lambda size: size[1]), sizes[1]
    eos = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    limits = [("pad_token_id", config.pad_token_id, smaller)]
    limits += [("eos_token_id", token, target) for token in eos]
    limits += [("decoder_start_token_id", config.decoder_start_token_id, target)]
    errors = [
        f"{name}={token} is outside the vocabulary, {size_name}={size}"
        for name, token, (size_name, size) in limits
        if token is not None and not 0 <= token < size
    ]
    if config.decoder_start_embedding == "zero" and config.decoder_start_token_id is None:
        errors.append('decoder_start_embedding="zero" needs a decoder_start_token_id')
    return errors


__all__ = ["VaswaniConfig"]
