import copy

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
    optimizer = make_optimizer(model, TrainingArguments(learning_rate=0.5, weight_decay=0.1), CPU, torch.float32)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        expected = before[name] * (1 - 0.5 * 0.1) if value.dim() > 1 else before[name]
        torch.testing.assert_close(value, expected)


def test_frozen_parameters_are_not_given_to_the_optimizer():
    model = tiny_model()
    freeze(model, ["model.encoder.layers"])
    optimizer = make_optimizer(model, TrainingArguments(), CPU, torch.float32)
    count = sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])
    assert count == sum(value.numel() for name, value in model.named_parameters() if ".encoder.layers." not in name)


def with_gradients(model) -> dict[str, torch.Tensor]:
    """Gives all parameters random gradients, and returns the values of the parameters."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def test_muon_makes_updates_of_hidden_matrices_orthogonal_and_as_large_as_adams():
    model = tiny_model()
    before = with_gradients(model)
    make_optimizer(model, TrainingArguments(learning_rate=0.01, optim="muon"), CPU, torch.float32).step()
    updates = {name: (value.detach() - before[name]) / 0.01 for name, value in model.named_parameters()}
    hidden = {name for name, value in updates.items() if value.dim() > 1} - {"model.shared.weight"}
    for name in hidden:
        # The nearest orthogonal matrix, from the singular vectors of the gradient; five iterations come close to it.
        left, _, right = torch.linalg.svd(model.get_parameter(name).grad, full_matrices=False)
        assert torch.cosine_similarity(-updates[name].flatten(), (left @ right).flatten(), dim=0) > 0.94, name
        assert 0.14 < updates[name].square().mean().sqrt() < 0.22, name
    for name in updates.keys() - hidden:
        # Adam's first update is the sign of the gradient.
        torch.testing.assert_close(updates[name].abs(), torch.ones_like(updates[name]), rtol=0, atol=1e-3)


def test_muon_continues_from_its_state_dict_bit_for_bit():
    arguments = TrainingArguments(learning_rate=0.01, optim="muon", weight_decay=0.1)
    whole, resumed = tiny_model(), tiny_model()
    resumed.load_state_dict(whole.state_dict())
    optimizers = [make_optimizer(model, arguments, CPU, torch.float32) for model in (whole, resumed)]
    for step in range(4):
        if step == 2:
            state = copy.deepcopy(optimizers[1].state_dict())
            optimizers[1] = make_optimizer(resumed, arguments, CPU, torch.float32)
            optimizers[1].load_state_dict(state)
        for model, optimizer in zip((whole, resumed), optimizers, strict=True):
            with_gradients(model)
            for group in optimizer.param_groups:
                group["lr"] = 0.01 / (step + 1)
            optimizer.step()
    for name, value in resumed.named_parameters():
        assert torch.equal(value, whole.get_parameter(name)), name


@pytest.mark.parametrize(("frozen", "kinds"), [(["lm_head"], 2), ([r".*_proj", r".*\.fc[12]"], 1)])
def test_muon_trains_what_is_not_frozen(frozen, kinds):
    model = tiny_model()
    freeze(model, frozen)
    before = with_gradients(model)
    optimizer = make_optimizer(model, TrainingArguments(learning_rate=0.01, optim="muon"), CPU, torch.float32)
    assert len(optimizer.param_groups) == kinds
    optimizer.step()
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name]) != value.requires_grad, name


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
