import numpy as np
import pytest
import torch

from hf_vaswani.training.optimization.step_loss import r_drop_loss, training_loss

from ...conftest import tiny_model

SOURCE = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
LABELS = torch.tensor([[4, 5, 2, -100, -100], [6, 7, 8, 9, 2]])
BATCH = {"input_ids": SOURCE, "attention_mask": (SOURCE != 0).long(), "labels": LABELS}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def test_r_drop_matches_its_formula_over_two_passes_with_different_dropout():
    model = tiny_model(dropout=0.3, label_smoothing=0.1).train()
    torch.manual_seed(3)
    loss = training_loss(model, BATCH, target_tokens=16, r_drop=2.5)
    torch.manual_seed(3)
    doubled = {name: torch.cat([tensor, tensor]) for name, tensor in BATCH.items()}
    logits = model(**doubled).logits.detach().double().numpy()
    counted = LABELS.numpy() != -100
    first, second = log_softmax(logits[:2][counted]), log_softmax(logits[2:][counted])
    assert not np.allclose(first, second)
    targets = LABELS.numpy()[counted]
    vocabulary = logits.shape[-1]
    smoothed = np.full(first.shape, 0.1 / vocabulary)
    smoothed[np.arange(len(targets)), targets] += 0.9
    cross_entropies = -(smoothed * first).sum() - (smoothed * second).sum()
    divergences = (np.exp(first) * (first - second)).sum() + (np.exp(second) * (second - first)).sum()
    assert loss.item() == pytest.approx((cross_entropies / 2 + 2.5 / 2 * divergences / 2) / 16, rel=1e-5)


def test_r_drop_without_dropout_is_the_plain_loss():
    model = tiny_model(dropout=0.0).train()
    plain = training_loss(model, BATCH, target_tokens=8)
    torch.testing.assert_close(training_loss(model, BATCH, target_tokens=8, r_drop=5.0), plain, atol=1e-6, rtol=1e-6)


def test_batch_with_only_ignored_labels_has_zero_loss():
    model = tiny_model(dropout=0.1).train()
    empty = {**BATCH, "labels": torch.full_like(LABELS, -100)}
    assert training_loss(model, empty, target_tokens=8, r_drop=1.0).item() == 0


def test_gradient_of_r_drop_matches_its_formula():
    torch.manual_seed(0)
    # Enough logits to be processed in several chunks, one of which has only ignored labels.
    logits = (3 * torch.randn(2, 500, 700, dtype=torch.float64)).requires_grad_()
    labels = torch.randint(700, (1, 500)).masked_fill(torch.rand(1, 500) < 0.2, -100)
    labels[:, 187:374] = -100
    counted = labels != -100
    smoothed = 0.9 * torch.nn.functional.one_hot(labels[counted], 700) + 0.1 / 700
    first, second = (half[counted].log_softmax(-1) for half in logits.chunk(2))
    cross_entropies = -(smoothed * (first + second)).sum()
    divergences = ((first.exp() - second.exp()) * (first - second)).sum()
    expected = (cross_entropies / 2 + 1.5 / 2 * divergences / 2) / 40
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    value = r_drop_loss(logits, labels, 0.1, 40, 1.5)
    (gradient,) = torch.autograd.grad(2 * value, logits)
    torch.testing.assert_close(value, expected.float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient, 2 * expected_gradient, rtol=1e-3, atol=1e-7)
    without_gradient = r_drop_loss(logits.detach(), labels, 0.1, 40, 1.5)  # as other devices compute it
    torch.testing.assert_close(without_gradient, value, rtol=1e-5, atol=0)


def test_r_drop_of_bf16_logits_is_computed_in_fp32_and_only_its_gradient_is_rounded():
    logits = (3 * torch.randn(2, 500, 700)).bfloat16()
    labels = torch.randint(700, (1, 500)).masked_fill(torch.rand(1, 500) < 0.2, -100)
    values, gradients = [], []
    for dtype in (torch.bfloat16, torch.float32):
        leaf = logits.to(dtype).requires_grad_()
        values.append(r_drop_loss(leaf, labels, 0.1, 40, 1.5))
        gradients += torch.autograd.grad(values[-1], leaf)
    assert values[0].dtype == torch.float32 and torch.equal(*values)
    assert gradients[0].dtype == torch.bfloat16 and torch.equal(gradients[0], gradients[1].bfloat16())


@pytest.fixture
def product_dtypes(monkeypatch):
    """The dtypes of the sums of products that losses compute, as they are computed."""
    dtypes, vecdot = [], torch.linalg.vecdot

    def recorded(*arguments):
        result = vecdot(*arguments)
        dtypes.append(result.dtype)
        return result

    monkeypatch.setattr(torch.linalg, "vecdot", recorded)
    return dtypes


def test_r_drop_is_computed_in_fp32_under_autocast(product_dtypes):
    with torch.autocast("cpu", torch.bfloat16):
        training_loss(tiny_model().train(), BATCH, target_tokens=16, r_drop=2.5)
    assert set(product_dtypes) == {torch.float32}
