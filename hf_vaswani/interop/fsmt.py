"""Reads FSMT models of transformers: fairseq's WMT19 models, post-norm, with fairseq's positions."""

from pathlib import Path

from transformers import FSMTForConditionalGeneration

from ..errors import InputError
from ..text.languages import own_languages
from .conversion import LM_HEAD, Conversion, embedding_fields, is_sinusoidal
from .pretrained import make_conversion, open_model

MODEL_CLASS = FSMTForConditionalGeneration


def read(source: str | Path | FSMTForConditionalGeneration) -> Conversion:
    """Read an FSMT model, given as a model, a folder or a Hub id."""
    model, name = open_model(MODEL_CLASS, source)
    weights = dict(model.state_dict())
    names = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
    tables = [weights.pop(name) for name in names if name in weights]  # a model that computes them stores none
    first = model.config.pad_token_id + 1
    if not all(is_sinusoidal(table[first:], "halves", "tensor2tensor", first) for table in tables):
        raise InputError(f"{name} has a position table that does not hold FSMT's sinusoids.")
    weights[LM_HEAD] = weights.pop("model.decoder.output_projection.weight")
    source_language, target_language = own_languages(model.config)
    return make_conversion(
        source,
        model,
        name,
        weights,
        sinusoid_exponent="tensor2tensor",
        sinusoid_offset=first,
        positions_skip_padding=True,
        source_language=source_language,
        target_language=target_language,
        # The config does not say which matrices are tied; only the values do.
        **embedding_fields(name, weights),
    )
