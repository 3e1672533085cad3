"""What every system's reader gives, and the model that is built from it when all of it has been checked."""

from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_layers import sinusoidal_positions
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError, reason

SHARED = "model.shared.weight"
SOURCE_EMBEDDINGS = "model.encoder.embed_tokens.weight"
TARGET_EMBEDDINGS = "model.decoder.embed_tokens.weight"
SOFTMAX = "lm_head.weight"
NAMES_SHOWN = 5
PLAIN = (bool, int, float, str, list, type(None))


@dataclass
class Conversion:
    """Another system's model in this one's terms.

    Args:
        source: what it was read from, for messages.
        config: the architecture.
        weights: all parameters under this model's names, tied ones under each of theirs.
        generation_config: how the other system searches, where it says so.
        make_tokenizer: builds the tokenizer, or gives None where the source has none.
        splitting: how that tokenizer splits text, in words.
    """

    source: str
    config: VaswaniConfig
    weights: dict[str, torch.Tensor]
    generation_config: GenerationConfig | None = None
    make_tokenizer: Callable[[], PreTrainedTokenizerBase | None] = field(default=lambda: None)
    splitting: str = "the source's own tokenizer splits text"

    def build(self, dtype: torch.dtype = torch.float32) -> VaswaniForConditionalGeneration:
        """The model with weights of its own, in evaluation mode.

        Raises:
            InputError: weights that are missing, too many, no numbers or of another shape than the configuration's.
        """
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"dtype must be a torch.dtype, such as torch.float32, got {dtype!r}.")
        self.check_weights()
        # Copies, since the source may be a model that lives on.
        weights = {name: tensor.detach().to(dtype, copy=True).contiguous() for name, tensor in self.weights.items()}
        model = VaswaniForConditionalGeneration.from_pretrained(
            None, config=self.config, state_dict=weights, dtype=dtype
        )
        model.name_or_path = self.source
        if self.generation_config is not None:
            model.generation_config = self.generation_config
        return model.eval()

    def check_weights(self) -> None:
        with torch.device("meta"):
            state = VaswaniForConditionalGeneration(self.config).state_dict()
        expected = {name: tuple(tensor.shape) for name, tensor in state.items()}
        found = {name: tuple(tensor.shape) for name, tensor in self.weights.items()}
        common = expected.keys() & found.keys()
        faults = weight_faults(
            self.source,
            [
                (name, found[name], shape)
                for name, shape in expected.items()
                if name in common and found[name] != shape
            ],
            expected.keys() - common,
            found.keys() - common,
        )
        other = [name for name, tensor in self.weights.items() if not tensor.is_floating_point()]
        if other:
            faults.append(f"{self.source} has weights that are no floating-point numbers: {listed(other)}.")
        if faults:
            raise InputError.of(faults)


def weight_faults(
    source: str, mismatched: Iterable[tuple[str, tuple, tuple]], missing: Iterable[str], unknown: Iterable[str]
) -> list[str]:
    """What is wrong between the weights of a source and its configuration.

    Args:
        mismatched: name, shape found and shape expected of each weight of another shape.
        missing, unknown: names of weights that are expected or found alone.
    """
    mismatched = list(mismatched)
    faults = [
        f"{source}: {name} has shape {tuple(found)}, but its configuration asks for {tuple(expected)}."
        for name, found, expected in mismatched[:NAMES_SHOWN]
    ]
    if len(mismatched) > NAMES_SHOWN:
        faults.append(f"{source}: {len(mismatched) - NAMES_SHOWN} more weights have other shapes than it asks for.")
    if missing:
        faults.append(f"{source} lacks weights that its configuration asks for: {listed(missing)}.")
    if unknown:
        faults.append(f"{source} has weights that this model has no place for: {listed(unknown)}.")
    return faults


def split_projections(attention: str, kind: str, joined: torch.Tensor) -> dict[str, torch.Tensor]:
    """Queries', keys' and values' weights or biases that fairseq and torch join to one tensor, in that order."""
    names = ("q_proj", "k_proj", "v_proj")
    return {f"{attention}.{name}.{kind}": part for name, part in zip(names, joined.chunk(3))}


def make_config(source: str, **fields) -> VaswaniConfig:
    """The config of a foreign model; values that contradict each other are the source's fault.

    Raises:
        InputError: all of them together.
    """
    try:
        return VaswaniConfig(**fields)
    except Exception as error:  # whatever the strict dataclass raises is a fault of the source
        raise InputError(f"{source}: its configuration makes no model. {reason(error)}") from None


def embedding_fields(source: str, weights: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Sizes and sharing of embeddings and softmax as the values tell them; the shared matrix joins the weights.

    Raises:
        InputError: where one of the three is missing or no matrix.
    """
    names = (SOURCE_EMBEDDINGS, TARGET_EMBEDDINGS, SOFTMAX)
    faults = [name for name in names if name not in weights or weights[name].dim() != 2]
    if faults:
        raise InputError(f"{source} is no whole translation model: it lacks {listed(faults)}.")
    source_matrix, target_matrix, softmax = (weights[name] for name in names)
    share = is_same(source_matrix, target_matrix)
    if share:
        weights[SHARED] = source_matrix
    return {
        "vocab_size": len(source_matrix),
        "decoder_vocab_size": len(target_matrix),
        "share_encoder_decoder_embeddings": share,
        "tie_word_embeddings": is_same(target_matrix, softmax),
    }


def is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two matrices are one, or copies of one."""
    return first.shape == second.shape and torch.equal(first, second)


def is_sinusoidal(table: torch.Tensor, layout: str, exponent: str, offset: int = 0) -> bool:
    """Whether a stored table of positions `(length, d_model)` is of a layout, save for half precision's rounding."""
    if table.dim() != 2 or not table.is_floating_point() or table.numel() == 0 or table.shape[1] % 2:
        return False
    expected = sinusoidal_positions(torch.arange(len(table)) + offset, table.shape[1], layout, exponent).double()
    return torch.allclose(table.double().cpu(), expected, atol=5e-3)


def check_state(source: str, state: object) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint, if they are such: names and dense tensors.

    Raises:
        InputError: where they are not.
    """
    if not isinstance(state, dict) or not state:
        raise InputError(f"{source} holds no weights where they should be, but {_kind(state)}.")
    faults = [
        str(name)
        for name, tensor in state.items()
        if not (isinstance(name, str) and isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided)
    ]
    if faults:
        raise InputError(f"{source}: these weights are no tensors: {listed(faults)}.")
    return dict(state)


def check_options(source: str, options: object) -> dict[str, Any]:
    """The options of a checkpoint by name.

    Raises:
        InputError: where they are none.
    """
    if isinstance(options, Namespace):
        return dict(vars(options))
    if isinstance(options, dict) and all(isinstance(name, str) for name in options):
        return dict(options)
    raise InputError(f"{source} holds no options where they should be, but {_kind(options)}.")


def not_neutral(options: dict[str, Any], neutral: dict[str, tuple]) -> list[str]:
    """A fault for each option whose value is none of those that change nothing."""
    return [
        f"{name}={options[name]!r} is not supported."
        for name, values in neutral.items()
        if name in options and not (isinstance(options[name], PLAIN) and options[name] in values)
    ]


def listed(names: Iterable[str]) -> str:
    """The first names in order, and how many more there are."""
    names = sorted(names)
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _kind(value: object) -> str:
    return f"a {type(value).__name__}" if value else f"nothing ({value!r})"
