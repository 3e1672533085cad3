"""What every system's reader gives, and the model that is built from it when all of it has been checked."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..errors import InputError
from ..modeling_vaswani import VaswaniForConditionalGeneration

NAMES_SHOWN = 5


@dataclass
class Conversion:
    """Another system's model in this one's terms.

    Args:
        source: what it was read from, for messages.
        config: the architecture.
        weights: all parameters under this model's names, tied ones under each of theirs.
        generation_config: how the other system searches, where it says so.
        make_tokenizer: builds the tokenizer, or gives None where the source has none.
    """

    source: str
    config: VaswaniConfig
    weights: dict[str, torch.Tensor]
    generation_config: GenerationConfig | None = None
    make_tokenizer: Callable[[], PreTrainedTokenizerBase | None] = field(default=lambda: None)

    def build(self, dtype: torch.dtype = torch.float32) -> VaswaniForConditionalGeneration:
        """The model with its weights, in evaluation mode.

        Raises:
            InputError: weights that are missing, too many or of another shape than the configuration asks for.
        """
        self.check_weights()
        weights = {name: tensor.detach().to(dtype) for name, tensor in self.weights.items()}
        model = VaswaniForConditionalGeneration.from_pretrained(
            None, config=self.config, state_dict=weights, dtype=dtype
        )
        if self.generation_config is not None:
            model.generation_config = self.generation_config
        return model.eval()

    def check_weights(self) -> None:
        with torch.device("meta"):
            state = VaswaniForConditionalGeneration(self.config).state_dict()
        expected = {name: tuple(tensor.shape) for name, tensor in state.items()}
        found = {name: tuple(tensor.shape) for name, tensor in self.weights.items()}
        faults = [
            f"{self.source}: {name} has shape {found[name]}, but its configuration asks for {shape}."
            for name, shape in expected.items()
            if name in found and found[name] != shape
        ]
        missing, unknown = expected.keys() - found.keys(), found.keys() - expected.keys()
        if missing:
            faults.append(f"{self.source} lacks weights that its configuration asks for: {listed(missing)}.")
        if unknown:
            faults.append(f"{self.source} has weights that this model has no place for: {listed(unknown)}.")
        if faults:
            raise InputError.of(faults)


def make_config(source: str, **fields) -> VaswaniConfig:
    """The config of a foreign model; values that contradict each other are the source's fault.

    Raises:
        InputError: all of them together.
    """
    try:
        return VaswaniConfig(**fields)
    except (ValueError, TypeError) as error:
        raise InputError(f"{source}: its configuration makes no model. {' '.join(str(error).split())}") from None


def is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two matrices are one, or copies of one."""
    return first.shape == second.shape and torch.equal(first, second)


def listed(names: Iterable[str]) -> str:
    """The first names in order, and how many more there are."""
    names = sorted(names)
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
