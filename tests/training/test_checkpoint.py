import pytest
import torch

from hf_vaswani.training.checkpoint import (
    Progress,
    average_weights,
    checkpoint_folders,
    load_checkpoint,
    save_checkpoint,
    set_weights,
    weights,
)

from ..conftest import tiny_model


def stepped(seed=0):
    """A model and its optimiser after one step."""
    model = tiny_model()
    optimizer = torch.optim.Adam(model.parameters())
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, optimizer


def test_checkpoint_brings_back_weights_optimiser_and_progress(tmp_path):
    model, optimizer = stepped()
    path = save_checkpoint(tmp_path, model, optimizer, None, Progress(7, 1, 3, 12.5), keep=5)
    other, other_optimizer = stepped(seed=1)
    assert load_checkpoint(path, other, other_optimizer, None) == Progress(7, 1, 3, 12.5)
    for before, after in zip(model.parameters(), other.parameters()):
        assert torch.equal(before, after)
        state, other_state = optimizer.state[before], other_optimizer.state[after]
        assert torch.equal(state["exp_avg_sq"], other_state["exp_avg_sq"])


def test_oldest_checkpoints_are_removed_and_unfinished_ones_are_none(tmp_path):
    model, optimizer = stepped()
    (tmp_path / "update-00000099.part").mkdir()
    for update in (5, 10, 200):
        save_checkpoint(tmp_path, model, optimizer, None, Progress(update), keep=2)
    assert [path.name for path in checkpoint_folders(tmp_path)] == ["update-00000010", "update-00000200"]


def test_average_is_the_mean_of_the_tensors(tmp_path):
    models = [stepped(seed)[0] for seed in range(3)]
    paths = []
    for update, model in enumerate(models):
        paths.append(save_checkpoint(tmp_path, model, torch.optim.Adam(model.parameters()), None, Progress(update), 9))
    mean = average_weights(paths)
    for name, value in weights(models[0]).items():
        expected = sum(weights(model)[name].double() for model in models) / 3
        torch.testing.assert_close(mean[name], expected.to(value.dtype), atol=0, rtol=0)


def test_weights_of_another_model_are_refused():
    with pytest.raises(ValueError, match=r"encoder\.layers\.1"):
        set_weights(tiny_model(encoder_layers=1), weights(tiny_model()))
