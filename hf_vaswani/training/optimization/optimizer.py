"""Adam as in section 5.3 of the paper, AdamW, Muon, and the choice of parameters that they update."""

import re

import torch
from torch import nn
from torch.optim import Optimizer

from ...errors import InputError
from ..recipe.arguments import TrainingArguments
from .sharding import StateDict


def make_optimizer(
    model: nn.Module, arguments: TrainingArguments, device: torch.device, dtype: torch.dtype
) -> Optimizer:
    """The optimizer that a recipe asks for, over the parameters that are not frozen.

    With `optim: muon`, Muon updates the weights of linear layers, except for the output projection. Adam updates all
    other parameters.

    Args:
        dtype: of the forward and backward passes.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    hidden = hidden_matrices(model) if arguments.optim == "muon" else set()
    matrices = [parameter for parameter in trained if parameter in hidden]
    others = [parameter for parameter in trained if parameter not in hidden]
    if not matrices:
        return _adam(others, arguments, device)
    from .muon import Muon

    muon = Muon(matrices, lr=arguments.learning_rate, weight_decay=arguments.weight_decay, dtype=dtype)
    return CombinedOptimizer([muon, _adam(others, arguments, device)]) if others else muon


def hidden_matrices(model: nn.Module) -> set[nn.Parameter]:
    """The weights of linear layers, except for the output projection and any that are tied to embeddings."""
    output = model.get_output_embeddings()
    others = {module.weight for module in model.modules() if isinstance(module, nn.Embedding) or module is output}
    return {module.weight for module in model.modules() if isinstance(module, nn.Linear)} - others


def _adam(parameters: list[nn.Parameter], arguments: TrainingArguments, device: torch.device) -> Optimizer:
    """Adam, or AdamW if there is weight decay.

    Weight decay applies to matrices only: biases and the gains of LayerNorm have no scale to keep small.
    """
    groups = [{"params": parameters, "weight_decay": 0.0}]
    if arguments.weight_decay:
        groups = [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": arguments.weight_decay},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
        ]
    kind = torch.optim.AdamW if arguments.weight_decay else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=arguments.learning_rate,
        betas=(arguments.adam_beta1, arguments.adam_beta2),
        eps=arguments.adam_epsilon,
        fused=device.type in ("cpu", "cuda"),
    )


class CombinedOptimizer(Optimizer):
    """Optimizers that step together, and whose parameter groups and state are those of one optimizer.

    Args:
        parts: the optimizers, which share no parameters.
    """

    def __init__(self, parts: list[Optimizer]):
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._share()

    def step(self, closure=None) -> None:
        """Let each part do its step. `closure` has no effect."""
        for part in self.parts:
            part.step()

    def __setstate__(self, state: StateDict) -> None:
        # `load_state_dict` puts other groups and another state in place of those that the parts know.
        super().__setstate__(state)
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = [next(groups) for _ in part.param_groups]
            part.state = self.state


def freeze(model: nn.Module, patterns: list[str]) -> None:
    """Freeze the parameters whose names begin with a match of a pattern.

    Args:
        patterns: regular expressions: `model.encoder`, `.*embed_tokens`, `model.decoder.layers.[0-2]`.

    Raises:
        InputError: if patterns are not regular expressions or match nothing, all of them at once; if nothing is left
            to train.
    """
    errors, frozen = [], set()
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for pattern in patterns:
        try:
            matched = {name for name in names if re.match(rf"(?:{pattern})(?:$|\.|(?<=\.))", name)}
        except re.error as error:
            errors.append(f"training.freeze: {pattern!r} is not a regular expression: {error}")
            continue
        if not matched:
            examples = sorted({".".join(name.split(".")[:3]) for name in names})[:6]
            errors.append(
                f"training.freeze: {pattern!r} matches no parameter. Names begin with {', '.join(examples)}, …"
            )
        frozen |= matched
    if errors:
        raise InputError.of(errors)
    # A tied matrix has several names, and any of them freezes it.
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in frozen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"training.freeze={patterns} freezes all parameters: nothing is left to train.")
