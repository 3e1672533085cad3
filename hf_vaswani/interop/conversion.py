"""What all readers share: pickles read as data, options checked, and the result that is built into a model."""

import argparse
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_layers import sinusoidal_positions
from ..errors import InputError, listed, reason
from ..files import AGAIN
from ..generation.fast_model import VaswaniForConditionalGeneration
from ..models.model_loading import REPORTING, foreign_classes, report_errors
from ..runtime.imports import quiet

# Classes in checkpoints of older versions of fairseq and OpenNMT-py; only their state is used, if anything.
KNOWN_CLASSES = (
    "fairseq.meters.AverageMeter", "fairseq.meters.TimeMeter", "fairseq.meters.StopwatchMeter",
    "onmt.inputters.text_dataset.TextMultiField", "onmt.inputters.text_dataset._feature_tokenize",
    "onmt.inputters.inputter.AlignField", "onmt.inputters.inputter.parse_align_idx",
    "onmt.inputters.inputter.make_src", "onmt.inputters.inputter.make_tgt",
    "torchtext.data.field.Field", "torchtext.data.field.RawField", "torchtext.vocab.Vocab",
    "numpy.core.multiarray._reconstruct", "numpy.core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct", "numpy._core.multiarray.scalar",
    "numpy.dtype", "numpy.ndarray", "functools.partial", "_codecs.encode",
)  # fmt: skip
SHARED = "model.shared.weight"
SOURCE_EMBEDDINGS = "model.encoder.embed_tokens.weight"
TARGET_EMBEDDINGS = "model.decoder.embed_tokens.weight"
LM_HEAD = "lm_head.weight"
PLAIN = (bool, int, float, str, list, type(None))


class Inert:
    """Stands in for an object of a known class: keeps its pickled state and does nothing else."""

    state = None

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        self.state = state


ALLOWED_CLASSES = {argparse.Namespace, set, *((Inert, name) for name in KNOWN_CLASSES)}


def read_checkpoint(path: str) -> dict:
    """Read a file written by `torch.save`, with tensors on the CPU.

    Raises:
        InputError: the file is truncated, is not a checkpoint, or holds forbidden classes, which the error lists.
    """
    try:
        # Without those that are allowed already, which would be forbidden afterwards.
        with torch.serialization.safe_globals(list(ALLOWED_CLASSES - set(torch.serialization.get_safe_globals()))):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        if classes := foreign_classes(error):
            raise InputError(
                f"{path}: its pickle contains {classes}, which weights do not need and which could run code; nothing "
                "was run or read. Save the weights and options again without it."
            ) from None
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        raise InputError(f"{path} is not a checkpoint written by torch.save, or it is truncated. {AGAIN}") from None


@dataclass
class Conversion:
    """Another system's model in terms of this package's: its configuration and its parameter names.

    Attributes:
        source: what the model was read from, for messages.
        config: the architecture.
        weights: all parameters under this package's names, tied ones under each of their names.
        generation_config: the search settings of the other system, if known.
        make_tokenizer: builds the tokenizer; returns None if the source has none.
        splitting: a description of how that tokenizer splits text.
    """

    source: str
    config: VaswaniConfig
    weights: dict[str, torch.Tensor]
    generation_config: GenerationConfig | None = None
    make_tokenizer: Callable[[], PreTrainedTokenizerBase | None] = field(default=lambda: None)
    splitting: str = "the source's own tokenizer splits text"

    def build(self, dtype: torch.dtype = torch.float32) -> VaswaniForConditionalGeneration:
        """Build the model, in evaluation mode and with copies of the weights.

        Raises:
            InputError: weights are missing, unknown or not floating-point, or their shapes do not fit the
                configuration.
        """
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"dtype must be a torch.dtype, such as torch.float32, got {dtype!r}.")
        if other := [name for name, tensor in self.weights.items() if not tensor.is_floating_point()]:
            raise InputError(f"{self.source} has weights that are not floating-point numbers: {listed(other)}.")
        # Copies, since the source may be a model that stays in use.
        weights = {name: tensor.detach().to(dtype, copy=True).contiguous() for name, tensor in self.weights.items()}
        with quiet("transformers"):
            model, report = VaswaniForConditionalGeneration.from_pretrained(
                None, config=self.config, state_dict=weights, dtype=dtype, **REPORTING
            )
        if errors := report_errors(self.source, report):
            raise InputError.of(errors)
        model.name_or_path = self.source
        if self.generation_config is not None:
            model.generation_config = self.generation_config
        return model.eval()


def split_projections(attention: str, kind: str, joined: torch.Tensor) -> dict[str, torch.Tensor]:
    """Split a joined weight or bias of fairseq or torch into one each for query, key and value."""
    return {f"{attention}.{name}_proj.{kind}": part for name, part in zip("qkv", joined.chunk(3))}


def make_config(source: str, **fields) -> VaswaniConfig:
    """The config of another system's model.

    Raises:
        InputError: lists all invalid or conflicting values.
    """
    try:
        return VaswaniConfig(**fields)
    except Exception as error:  # whatever the strict dataclass raises is an error of the source
        raise InputError(f"{source}: its configuration is invalid. {reason(error)}") from None


def embedding_fields(source: str, weights: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Config fields for the sizes and tying of the embeddings and the LM head, inferred from their weights.

    Matrices with equal values count as tied. A shared embedding matrix is added to `weights`.

    Raises:
        InputError: the source embeddings, the target embeddings or the LM head is missing or not a matrix.
    """
    names = (SOURCE_EMBEDDINGS, TARGET_EMBEDDINGS, LM_HEAD)
    errors = [name for name in names if name not in weights or weights[name].dim() != 2]
    if errors:
        raise InputError(f"{source} is not a complete translation model: it lacks {listed(errors)}.")
    source_matrix, target_matrix, output_matrix = (weights[name] for name in names)
    share = _is_equal(source_matrix, target_matrix)
    if share:
        weights[SHARED] = source_matrix
    return {
        "vocab_size": len(source_matrix),
        "decoder_vocab_size": len(target_matrix),
        "share_encoder_decoder_embeddings": share,
        "tie_word_embeddings": _is_equal(target_matrix, output_matrix),
    }


def _is_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)


def is_sinusoidal(table: torch.Tensor, layout: str, exponent: str, offset: int = 0) -> bool:
    """Whether a stored position table `(length, d_model)` holds these sinusoids, up to rounding in half precision."""
    if table.dim() != 2 or not table.is_floating_point() or table.numel() == 0 or table.shape[1] % 2:
        return False
    expected = sinusoidal_positions(torch.arange(len(table)) + offset, table.shape[1], layout, exponent).double()
    return torch.allclose(table.double().cpu(), expected, atol=5e-3)


def check_state(source: str, state: object) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint by name, after checking that they are dense tensors.

    Raises:
        InputError: there are no weights, or some are not dense tensors.
    """
    if not isinstance(state, dict) or not state:
        raise InputError(f"{source} contains {_kind(state)} in place of weights.")
    wrong = [
        str(name)
        for name, tensor in state.items()
        if not (isinstance(name, str) and isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided)
    ]
    if wrong:
        raise InputError(f"{source}: these weights are not dense tensors: {listed(wrong)}.")
    return dict(state)


def check_options(source: str, options: object) -> dict[str, Any]:
    """The options of a checkpoint by name.

    Raises:
        InputError: they are neither a `Namespace` nor a dict with strings as keys.
    """
    if isinstance(options, Namespace):
        return dict(vars(options))
    if isinstance(options, dict) and all(isinstance(name, str) for name in options):
        return dict(options)
    raise InputError(f"{source} contains {_kind(options)} in place of options.")


def not_neutral(options: dict[str, object], neutral: dict[str, tuple]) -> list[str]:
    """An error for each option whose value is not one of its neutral values."""
    return [
        f"{name}={options[name]!r} is not supported."
        for name, values in neutral.items()
        if name in options and not (isinstance(options[name], PLAIN) and options[name] in values)
    ]


def _kind(value: object) -> str:
    return f"a {type(value).__name__}" if value else f"nothing ({value!r})"


def unexportable_features(model: VaswaniForConditionalGeneration) -> dict[str, bool]:
    """A description of each feature that cannot be exported → whether the model has it."""
    return {
        "an adapter (merge it: train it with --merge true, or call PEFT's merge_and_unload())": hasattr(
            model, "peft_config"
        ),
        "quantized weights (export the model that was quantized)": hasattr(model.config, "quantization_config"),
        "no decoder_start_token_id": model.config.decoder_start_token_id is None,
    }
