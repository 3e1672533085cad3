"""Imports MarianMT models of transformers, such as OPUS-MT, and exports any model that Marian can represent.

Marian's architecture is the paper's, post-norm, except for sinusoids in halves, a bias on the logits and a decoder
that starts with the padding token. The weights have the same names.
"""

import copy
from pathlib import Path

import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel, PreTrainedTokenizerBase

from ..core.generation_beam_search import LENGTH_PENALTY_TYPES
from ..core.generation_vaswani import OWN_SETTINGS
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.tokenizers.tokenizer import save_tokenizer
from ..errors import InputError
from ..ledger import new_folder
from ..text.languages import own_languages
from .conversion import SHARED, Conversion, embedding_fields, is_sinusoidal, unexportable_features
from .pretrained import common_fields, make_conversion, open_model

MODEL_CLASS = MarianMTModel
POSITION_TABLES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
LAYER_NORM_EPS = 1e-5


def read(source: str | Path | MarianMTModel) -> Conversion:
    """Read a MarianMT model, given as a model, a folder or a Hub id."""
    model, name = open_model(MODEL_CLASS, source)
    config, weights = model.config, dict(model.state_dict())
    if config.is_decoder:
        raise InputError(f"{name} is a Marian decoder without an encoder. Import a translation model.")
    if not all(is_sinusoidal(weights.pop(table), "halves", "paper") for table in POSITION_TABLES if table in weights):
        raise InputError(f"{name} has a position table that does not hold Marian's sinusoids.")
    weights["lm_head.bias"] = weights.pop("final_logits_bias")[0]
    weights.pop(SHARED, None)
    # transformers ties nothing if `tie_word_embeddings` is off, whatever the other option says. Matrices therefore
    # count as tied only if both their values and their option say so.
    fields = embedding_fields(name, weights)
    fields["share_encoder_decoder_embeddings"] &= config.share_encoder_decoder_embeddings
    fields["tie_word_embeddings"] &= config.tie_word_embeddings
    if not fields["share_encoder_decoder_embeddings"]:
        weights.pop(SHARED, None)
    fields["source_language"], fields["target_language"] = own_languages(config)
    fields["language_pairs"] = getattr(config, "language_pairs", None)
    return make_conversion(source, model, name, weights, layer_norm_eps=LAYER_NORM_EPS, output_bias=True, **fields)


def write(model: VaswaniForConditionalGeneration) -> MarianMTModel:
    """Convert a model to a `MarianMTModel` with the same logits.

    Interleaved sinusoids can be exported too: the order of the dimensions of the residual stream is arbitrary, so all
    weights are permuted to put the sines before the cosines.

    Raises:
        InputError: lists everything that Marian cannot represent.
    """
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise ValueError(f"model must be a VaswaniForConditionalGeneration, got a {type(model).__name__}.")
    config = model.config
    if features := unsupported_features(model):
        raise InputError.of([f"Marian cannot represent {feature}." for feature in features])
    marian_config = MarianConfig(
        vocab_size=config.vocab_size,
        decoder_vocab_size=config.decoder_vocab_size,
        share_encoder_decoder_embeddings=config.share_encoder_decoder_embeddings,
        tie_word_embeddings=config.tie_word_embeddings,
        forced_eos_token_id=None,
        source_language=config.source_language,  # read by this package alone
        target_language=config.target_language,
        language_pairs=config.language_pairs,
        **common_fields(config),
    )
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    if config.sinusoid_layout == "interleaved":
        weights = permute_residual_stream(weights, sines_first(config.d_model))
    bias = weights.pop("lm_head.bias", torch.zeros(config.decoder_vocab_size, dtype=model.dtype))
    weights["final_logits_bias"] = bias[None]
    marian = MarianMTModel(marian_config).to(model.dtype)
    for name, tensor in marian.state_dict().items():
        if name.endswith(".bias") and name not in weights:
            weights[name] = torch.zeros_like(tensor)  # a bias that this model lacks
    missing, unexpected = marian.load_state_dict(weights, strict=False)
    assert set(missing) <= set(POSITION_TABLES) and not unexpected, (missing, unexpected)
    marian.generation_config = copy.deepcopy(model.generation_config)
    for name in OWN_SETTINGS:
        vars(marian.generation_config).pop(name, None)
    if marian.generation_config.max_length is None and marian.generation_config.max_new_tokens is None:
        # Otherwise transformers would stop after 20 tokens.
        marian.generation_config.max_length = config.max_position_embeddings
    return marian.eval()


def export_checkpoint(
    model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase | None, output: str | Path
) -> None:
    """Export a model and its tokenizer to a folder, as a MarianMT model of transformers.

    A tokenizer with two vocabularies becomes two plain ones, in the subfolders `source_tokenizer` and
    `target_tokenizer`. With this package, or with `trust_remote_code=True`, `AutoTokenizer` joins them again;
    otherwise it finds no tokenizer, so that it cannot use the source tokenizer for both sides.

    Raises:
        InputError: lists everything that Marian cannot represent; or `output` cannot be written.
    """
    with new_folder(output) as folder:
        write_marian(model, tokenizer, folder)


def write_marian(
    model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase | None, folder: Path
) -> None:
    """Do the same as [`export_checkpoint`], but in a folder that already exists."""
    write(model).save_pretrained(folder)
    if tokenizer is not None:
        save_tokenizer(tokenizer, folder, beside_other_model=True)


def lost_settings(config: GenerationConfig) -> list[str]:
    """The settings of a model's search that MarianMT does not have, as `name=value`."""
    values = {name: getattr(config, name, None) for name in OWN_SETTINGS}
    if values["length_penalty_type"] == LENGTH_PENALTY_TYPES[0] or config.length_penalty == 0 or config.num_beams == 1:
        del values["length_penalty_type"]
    return [f"{name}={value}" for name, value in values.items() if value is not None]


def unsupported_features(model: VaswaniForConditionalGeneration) -> list[str]:
    """The features of a model that a MarianConfig cannot represent."""
    config = model.config
    heads = (config.encoder_attention_heads, config.decoder_attention_heads)
    own_widths = [width for width in (config.d_k, config.d_v) if width is not None]
    is_wide = any(width * count != config.d_model for width in own_widths for count in heads)
    embedding_dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
    checks = {
        **unexportable_features(model),
        'norm_position="pre"': config.norm_position == "pre",
        "final_norm=True": bool(config.final_norm),
        f"layer_norm_eps={config.layer_norm_eps}": config.layer_norm_eps != LAYER_NORM_EPS,
        f'position_type="{config.position_type}"': config.position_type != "sinusoidal",
        f"sinusoid_offset={config.sinusoid_offset}": config.sinusoid_offset != 0,
        'sinusoid_exponent="tensor2tensor"': config.sinusoid_exponent != "paper",
        "positions_skip_padding=True": config.positions_skip_padding,
        'decoder_start_embedding="zero"': config.decoder_start_embedding == "zero",
        f"d_k={config.d_k} and d_v={config.d_v}": is_wide,
        f"embedding_dropout={embedding_dropout} with dropout={config.dropout}": embedding_dropout != config.dropout,
    }
    return [feature for feature, applies in checks.items() if applies]


def sines_first(d_model: int) -> torch.Tensor:
    """The permutation that turns sin, cos, sin, cos, … into all sines, then all cosines."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def permute_residual_stream(weights: dict[str, torch.Tensor], order: torch.Tensor) -> dict[str, torch.Tensor]:
    """Permute the dimensions of the residual stream in all weights, which does not change the model's function.

    The stream is the last dimension of the embeddings and of the layers that read it (the query, key and value
    projections, `fc1` and the LM head), and the first dimension of the norms and of the layers that write to it.
    """
    writers = (".out_proj.", ".fc2.")
    permuted = {}
    for name, tensor in weights.items():
        if "layer_norm" in name or any(writer in name for writer in writers):
            permuted[name] = tensor[order.to(tensor.device)]
        elif tensor.dim() == 2:
            permuted[name] = tensor[:, order.to(tensor.device)]
        else:
            permuted[name] = tensor
    return permuted
