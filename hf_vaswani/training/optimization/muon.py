"""Muon: gradient descent with momentum whose updates of matrices are made nearly orthogonal (Jordan et al. 2024).

torch.optim.Muon always computes in bf16, which takes seventeen times as long as fp32 on a CPU without AVX-512.
"""

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .sharding import full_tensor, shard_like

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
