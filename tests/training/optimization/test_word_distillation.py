"""The loss of word-level distillation, against its formula."""

import numpy as np
import pytest
import torch

from hf_vaswani.training.optimization.step_loss import training_loss
from hf_vaswani.training.optimization.word_distillation import (
    TeacherLogits,
    TopTokens,
    WordTeacher,
    distillation_loss,
)

from ...conftest import tiny_model
from .test_step_loss import BATCH, LABELS, log_softmax, product_dtypes

__all__ = ["product_dtypes"]


def different_models(number: int) -> list:
    """Models in evaluation mode with different weights."""
    models = [tiny_model(dropout=0.0, label_smoothing=0.1) for _ in range(number)]
    for i, model in enumerate(models):
        torch.manual_seed(i)
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    return models


def random_case(seed: int = 0):
    """Logits, those of two models of a teacher, and labels; enough for several chunks, one of which has no labels."""
    torch.manual_seed(seed)
    logits, *of_teacher = (3 * torch.randn(1, 800, 700, dtype=torch.float64) for _ in range(3))
    labels = torch.randint(700, (1, 800)).masked_fill(torch.rand(1, 800) < 0.2, -100)
    labels[:, 187:374] = -100
    return logits.requires_grad_(), of_teacher, labels


def test_loss_mixes_labels_with_the_mean_of_the_teachers_distributions():
    model, *teachers = different_models(3)
    loss = training_loss(model.train(), BATCH, target_tokens=8, teacher=WordTeacher(teachers, weight=0.3))
    counted = LABELS.numpy() != -100
    own, *others = (
        log_softmax(each(**BATCH).logits.detach().double().numpy()[counted]) for each in (model, *teachers)
    )
    targets = np.full(own.shape, 0.7 * 0.1 / own.shape[1])
    targets[np.arange(len(own)), LABELS.numpy()[counted]] += 0.7 * 0.9
    targets += 0.3 * (np.exp(others[0]) + np.exp(others[1])) / 2
    assert loss.item() == pytest.approx(-(targets * own).sum() / 8, rel=1e-5)


def test_gradient_matches_its_formula():
    logits, of_teacher, labels = random_case()
    counted = labels != -100
    targets = 0.6 * (0.9 * torch.nn.functional.one_hot(labels[counted], 700) + 0.1 / 700)
    targets = targets + 0.4 * sum(part[counted].softmax(-1) for part in of_teacher) / 2
    expected = -(targets * logits[counted].log_softmax(-1)).sum() / 40
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    value = distillation_loss(logits, TeacherLogits(of_teacher), labels, 0.1, 40, 0.4)
    (gradient,) = torch.autograd.grad(2 * value, logits)
    torch.testing.assert_close(value, expected.float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient, 2 * expected_gradient, rtol=1e-3, atol=1e-7)


def test_other_devices_compute_the_same_loss():
    logits, of_teacher, labels = random_case()
    value = distillation_loss(logits, TeacherLogits(of_teacher), labels, 0.1, 40, 0.4)
    without_gradient = distillation_loss(
        logits.detach(), TeacherLogits(of_teacher), labels, 0.1, 40, 0.4
    )  # as other devices do
    torch.testing.assert_close(without_gradient, value, rtol=1e-5, atol=0)


def random_top_tokens(k: int = 3) -> TopTokens:
    """Tokens for the positions of [`random_case`]; none occurs twice at a position."""
    torch.manual_seed(5)
    ids = torch.stack([torch.randperm(700)[:k] for _ in range(800)]).unsqueeze(0)
    return TopTokens(ids, torch.randn(1, 800, k).softmax(-1))


@pytest.mark.parametrize("with_gradient", [True, False], ids=["CPU", "other devices"])
def test_loss_against_top_tokens_matches_its_formula(with_gradient):
    logits, _, labels = random_case()
    top, counted = random_top_tokens(), labels != -100
    targets = 0.6 * (0.9 * torch.nn.functional.one_hot(labels[counted], 700) + 0.1 / 700)
    for ids, shares in zip(top.ids[counted].T, top.probabilities[counted].T):
        targets[torch.arange(len(ids)), ids] += 0.4 * shares
    expected = -(targets * logits[counted].log_softmax(-1)).sum() / 40
    given = logits if with_gradient else logits.detach()
    value = distillation_loss(given, top, labels, 0.1, 40, 0.4)
    torch.testing.assert_close(value, expected.float(), rtol=1e-5, atol=0)
    if with_gradient:
        (expected_gradient,) = torch.autograd.grad(expected, logits)
        (gradient,) = torch.autograd.grad(2 * value, logits)
        torch.testing.assert_close(gradient, 2 * expected_gradient, rtol=1e-3, atol=1e-7)


def test_stored_probabilities_are_scaled_to_a_sum_of_1_and_padding_stays_0():
    stored = torch.tensor([[[0.5, 0.25], [0.7, 0.1], [0, 0]]]).half()
    batch = {"soft_label_ids": torch.zeros(1, 3, 2, dtype=torch.int32), "soft_label_probabilities": stored}
    found = WordTeacher([], 0.5, top_k=2).distributions(batch, 40).probabilities
    torch.testing.assert_close(found, torch.tensor([[[2 / 3, 1 / 3], [0.875, 0.125], [0, 0]]]), rtol=1e-3, atol=0)
    torch.testing.assert_close(found.sum(-1), torch.tensor([[1.0, 1.0, 0.0]]), rtol=1e-6, atol=0)


def test_soft_labels_are_the_most_probable_tokens_of_the_mean_with_a_sum_of_1():
    models = different_models(2)
    labels = WordTeacher(models, 0.5, top_k=4).soft_labels(BATCH, 30)
    first, second = (np.exp(log_softmax(each(**BATCH).logits[..., :30].detach().double().numpy())) for each in models)
    mean = (first + second) / 2
    ids = np.argsort(-mean, axis=-1)[..., :4]
    shares = np.take_along_axis(mean, ids, -1)
    assert labels.ids.tolist() == ids.tolist()
    np.testing.assert_allclose(labels.probabilities, shares / shares.sum(-1, keepdims=True), rtol=1e-4)


def test_loss_of_bf16_logits_is_computed_in_fp32_and_only_its_gradient_is_rounded():
    logits, of_teacher, labels = random_case()
    logits, of_teacher = logits.detach().bfloat16(), [part.bfloat16() for part in of_teacher]
    values, gradients = [], []
    for dtype in (torch.bfloat16, torch.float32):
        leaf = logits.to(dtype).requires_grad_()
        parts = TeacherLogits([part.to(dtype) for part in of_teacher])
        values.append(distillation_loss(leaf, parts, labels, 0.1, 40, 0.4))
        gradients += torch.autograd.grad(values[-1], leaf)
    assert values[0].dtype == torch.float32 and torch.equal(*values)
    assert gradients[0].dtype == torch.bfloat16 and torch.equal(gradients[0], gradients[1].bfloat16())


def test_loss_is_computed_in_fp32_under_autocast(product_dtypes):
    with torch.autocast("cpu", torch.bfloat16):
        training_loss(tiny_model().train(), BATCH, target_tokens=8, teacher=WordTeacher([tiny_model().eval()], 0.5))
    assert set(product_dtypes) == {torch.float32}


def test_padding_of_the_teachers_vocabulary_does_not_count():
    model, other = different_models(2)
    padded = tiny_model(dropout=0.0, vocab_size=48, decoder_vocab_size=48)
    for name, value in padded.state_dict().items():
        value[: len(other.state_dict()[name])] = other.state_dict()[name]
    losses = [training_loss(model, BATCH, 8, teacher=WordTeacher([teacher], 0.5)) for teacher in (other, padded)]
    torch.testing.assert_close(*losses)


def test_copy_in_bf16_leaves_the_teacher_as_it_is_and_computes_nearly_the_same():
    teacher = WordTeacher(different_models(1), 0.5)
    copied = teacher.copy_to(torch.device("cpu"), "bf16")
    with torch.autocast("cpu", torch.bfloat16):
        (logits,) = copied.logits(BATCH, 40)
    assert logits.dtype == torch.bfloat16 and teacher.models[0].dtype == torch.float32
    torch.testing.assert_close(logits.float(), teacher.logits(BATCH, 40)[0], atol=0.05, rtol=0.05)


def test_digest_identifies_weights_and_order():
    models = different_models(2)
    digest = WordTeacher(models, 0.5).digest
    assert WordTeacher(models[:], 0.7).digest == digest
    assert WordTeacher(models[::-1], 0.5).digest != digest
    models[1].lm_head.weight.data[3, 0] += 1e-3
    assert WordTeacher(models, 0.5).digest != digest
