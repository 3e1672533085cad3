"""Adam as in section 5.3 of the paper, AdamW, Muon, and the choice of parameters that they update."""

import importlib
import re
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ...errors import InputError
from ...runtime.imports import import_extra
from ..recipe.arguments import TrainingArguments
from .sharding import StateDict, full_tensor, shard_like

# Of the polynomial whose repetition brings singular values near 1, and how often it is applied; both as in the source.
COEFFICIENTS, ITERATIONS = (3.4445, -4.7750, 2.0315), 5


class Muon(Optimizer):
    """Muon with Nesterov momentum (https://kellerjordan.github.io/posts/muon) and decoupled weight decay.

    Updates are scaled to a root mean square of about 0.2, that of Adam's, so that the same learning rates suit both
    (Liu et al. 2025, arXiv 2502.16982, section 2.2).

    Args:
        matrices: parameters of two dimensions.
        dtype: of the matrix products.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Update all matrices that have a gradient. `closure` has no effect."""
        for group in self.param_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            directions = [full_tensor(self._direction(matrix, group["momentum"])) for matrix in matrices]
            for matrix, update in zip(matrices, orthogonalize(directions, self.dtype), strict=True):
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(shard_like(update, matrix), alpha=-group["lr"] * 0.2 * max(matrix.shape) ** 0.5)

    def _direction(self, matrix: nn.Parameter, momentum: float) -> Tensor:
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
        return matrix.grad.lerp(state["momentum_buffer"], momentum)


def orthogonalize(matrices: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Bring the singular values of matrices near 1, by the Newton–Schulz iterations of Jordan et al. 2024.

    Matrices of the same shape, or its transpose, are computed together. The largest singular values end up between
    0.7 and 1.2; very small ones remain below.

    Args:
        matrices: `float32`.
        dtype: of the matrix products.
    """
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for number, matrix in enumerate(matrices):
        by_shape.setdefault(tuple(sorted(matrix.shape)), []).append(number)
    results = list(matrices)
    for numbers in by_shape.values():
        wide = torch.stack([_wide(matrices[number]) for number in numbers])
        # The spectral norm is at most this one.
        wide /= torch.linalg.matrix_norm(wide, keepdim=True).clamp(min=1e-7)
        for number, result in zip(numbers, _newton_schulz(wide.to(dtype)).to(wide.dtype), strict=True):
            results[number] = result if matrices[number].shape == result.shape else result.mT
    return results


def _wide(matrix: Tensor) -> Tensor:
    return matrix.mT if matrix.size(0) > matrix.size(1) else matrix


def _newton_schulz(matrices: Tensor) -> Tensor:
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        products = matrices @ matrices.mT
        factors = torch.baddbmm(products, products, products, beta=b, alpha=c)
        matrices = torch.baddbmm(matrices, factors, matrices, beta=a)
    return matrices


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
    used = [group for group in groups if group["params"]]
    betas, epsilon = (arguments.adam_beta1, arguments.adam_beta2), arguments.adam_epsilon
    if arguments.optim == "adam_8bit":
        library = import_torchao()
        kind = library.AdamW8bit if arguments.weight_decay else library.Adam8bit
        return kind(used, lr=arguments.learning_rate, betas=betas, eps=epsilon)
    kind = torch.optim.AdamW if arguments.weight_decay else torch.optim.Adam
    fused = device.type in ("cpu", "cuda")
    return kind(used, lr=arguments.learning_rate, betas=betas, eps=epsilon, fused=fused)


def import_torchao() -> ModuleType:
    """The optimizers of torchao, which compile their steps for each shape of parameter.

    Raises:
        InputError: the library is not installed.
    """
    import_extra("torchao")
    return importlib.import_module("torchao.optim")


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters."""
    for group in optimizer.param_groups:
        if torch.is_tensor(group["lr"]):  # torchao's
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


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
