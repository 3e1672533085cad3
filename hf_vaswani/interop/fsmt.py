"""FSMT models of transformers: fairseq's WMT19 models, post-norm, with fairseq's positions."""

from pathlib import Path

from transformers import FSMTForConditionalGeneration

from ..errors import InputError
from ..translation_inputs import own_languages
from .conversion import SOFTMAX, Conversion, embedding_fields, is_sinusoidal, make_config
from .pretrained import common_fields, generation_settings, load_model, load_tokenizer


def read(source: str | Path | FSMTForConditionalGeneration) -> Conversion:
    """An FSMT model, its folder or its Hub id."""
    is_model = isinstance(source, FSMTForConditionalGeneration)
    name = str(source) if not is_model else source.name_or_path or "the FSMT model"
    model = source if is_model else load_model(FSMTForConditionalGeneration, str(source))
    config = model.config
    weights = dict(model.state_dict())
    tables = [weights.pop(f"model.{stack}.embed_positions.weight") for stack in ("encoder", "decoder")]
    first = config.pad_token_id + 1
    if not all(is_sinusoidal(table[first:], "halves", "tensor2tensor", first) for table in tables):
        raise InputError(f"{name} has a table of positions that are not FSMT's sinusoids.")
    weights[SOFTMAX] = weights.pop("model.decoder.output_projection.weight")
    # The config does not say what is one matrix; only the values do.
    fields = embedding_fields(name, weights)
    languages = own_languages(config)
    vocabularies = {"source": fields["vocab_size"], "target": fields["decoder_vocab_size"]}
    return Conversion(
        source=name,
        config=make_config(
            name,
            label_smoothing=0.0,
            sinusoid_layout="halves",
            sinusoid_exponent="tensor2tensor",
            sinusoid_offset=first,
            positions_skip_padding=True,
            source_language=languages[0],
            target_language=languages[1],
            **fields,
            **common_fields(config),
        ),
        weights=weights,
        generation_config=generation_settings(model),
        make_tokenizer=lambda: None if is_model else load_tokenizer(str(source), vocabularies, config),
    )
