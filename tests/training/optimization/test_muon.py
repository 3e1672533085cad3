import pytest
import torch

from hf_vaswani.training.optimization.optimizer import Muon, orthogonalize


def orthonormal(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """A random matrix with orthonormal columns."""
    return torch.linalg.qr(torch.randn(rows, columns, generator=generator))[0]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
def test_singular_values_come_near_one_and_singular_vectors_remain(dtype, tolerance):
    generator = torch.Generator().manual_seed(0)
    shapes, values = [(8, 8), (8, 20), (20, 8), (8, 8)], torch.linspace(0.1, 5, 8)
    vectors = [(orthonormal(rows, 8, generator), orthonormal(columns, 8, generator)) for rows, columns in shapes]
    results = orthogonalize([left * values @ right.T for left, right in vectors], dtype)
    for result, (left, right) in zip(results, vectors, strict=True):
        assert result.dtype == torch.float32
        inner = left.T @ result @ right
        assert inner.diagonal().min() > 0.6 and inner.diagonal().max() < 1.25
        torch.testing.assert_close(inner, inner.diagonal().diag(), atol=tolerance, rtol=0)
        torch.testing.assert_close(left @ inner @ right.T, result, atol=tolerance, rtol=0)


def test_matrices_without_a_gradient_remain_as_they_are():
    matrices = [torch.nn.Parameter(torch.ones(4, 4)) for _ in range(2)]
    matrices[1].grad = torch.eye(4)
    Muon(matrices, lr=0.1, weight_decay=0.5).step()
    assert torch.equal(matrices[0], torch.ones(4, 4))
    assert not torch.equal(matrices[1], torch.ones(4, 4))
