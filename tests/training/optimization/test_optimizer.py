import pytest
import torch

from hf_vaswani.errors import InputError
from hf_vaswani.training.optimization.optimizer import freeze, make_optimizer
from hf_vaswani.training.recipe.arguments import TrainingArguments

from ...conftest import tiny_model

CPU = torch.device("cpu")


def frozen(model) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def test_weight_decay_shrinks_matrices_and_leaves_biases_and_gains():
    model = tiny_model()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = make_optimizer(model, TrainingArguments(learning_rate=0.5, weight_decay=0.1), CPU)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        expected = before[name] * (1 - 0.5 * 0.1) if value.dim() > 1 else before[name]
        torch.testing.assert_close(value, expected)


def test_frozen_parameters_are_not_given_to_the_optimizer():
    model = tiny_model()
    freeze(model, ["model.encoder.layers"])
    optimizer = make_optimizer(model, TrainingArguments(), CPU)
    count = sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])
    assert count == sum(value.numel() for name, value in model.named_parameters() if ".encoder.layers." not in name)


def test_pattern_freezes_full_names_and_everything_below_them():
    model = tiny_model()
    freeze(model, [r"model\.decoder\.layers\.0", ".*fc1.bias"])
    assert frozen(model) == {
        name
        for name, _ in model.named_parameters()
        if name.startswith("model.decoder.layers.0.") or name.endswith("fc1.bias")
    }


def test_tied_matrix_is_frozen_by_any_of_its_names():
    model = tiny_model()
    freeze(model, ["lm_head"])
    assert frozen(model) == {"model.shared.weight"}


def test_invalid_patterns_and_those_without_a_match_are_rejected_together():
    with pytest.raises(InputError) as error:
        freeze(tiny_model(), ["encoder", "model.enc", "(", "model.encoder"])
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    assert "'encoder' matches no parameter" in lines[0] and "model.encoder.layers" in lines[0]
    assert "'(' is not a regular expression" in lines[2]


def test_nothing_left_to_train_is_an_error():
    with pytest.raises(InputError, match="nothing is left to train"):
        freeze(tiny_model(), ["model"])
