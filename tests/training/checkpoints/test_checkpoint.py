import errno
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file

from hf_vaswani.errors import InputError, TrainingError
from hf_vaswani.training.checkpoints import checkpoint
from hf_vaswani.training.checkpoints.checkpoint import (
    TrainingState,
    checkpoint_folders,
    find_damage,
    load_checkpoint,
    newest_intact,
    save_checkpoint,
)
from hf_vaswani.training.optimization.progress import Progress
from hf_vaswani.training.optimization.sharding import set_optimizer_state
from hf_vaswani.training.optimization.weights import average_weights, set_weights, weights

from ...conftest import tiny_model


def stepped(seed=0):
    """A model and its optimizer after one step."""
    model = tiny_model()
    optimizer = torch.optim.Adam(model.parameters())
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, optimizer


def save(folder, update=1, seed=0, keep=9, **changes):
    model, optimizer = stepped(seed)
    state = TrainingState(weights(model), optimizer.state_dict(), Progress(update), **changes)
    return save_checkpoint(folder, state, keep)


def names(folder):
    return [path.name for path in checkpoint_folders(folder)]


def test_checkpoint_restores_weights_optimizer_average_scaler_and_progress(tmp_path):
    model, optimizer = stepped()
    progress = Progress(7, 1, 2, 3, 12.5, 4, 1, 0.1, 2, {"pairs": 3}, True, {"loss": 1 / 3, "steps": 2})
    ema = {"weight": torch.randn(3)}
    state = TrainingState(weights(model), optimizer.state_dict(), progress, ema, {"scale": 4.0})
    loaded = load_checkpoint(save_checkpoint(tmp_path, state, keep=5))
    assert loaded.progress == progress
    assert loaded.scaler == {"scale": 4.0}
    assert torch.equal(loaded.ema["weight"], ema["weight"])
    for name, value in model.named_parameters():
        assert torch.equal(loaded.weights[name], value)
    for number, parameter in enumerate(model.parameters()):
        assert torch.equal(loaded.optimizer["state"][number]["exp_avg_sq"], optimizer.state[parameter]["exp_avg_sq"])


def test_oldest_checkpoints_are_removed_and_unfinished_ones_are_not_counted(tmp_path):
    (tmp_path / "update-00000099.part").mkdir()
    for update in (5, 10, 200):
        save(tmp_path, update, keep=2)
    assert names(tmp_path) == ["update-00000010", "update-00000200"]


def test_copies_made_by_the_user_are_not_checkpoints_and_are_kept(tmp_path):
    for update in range(1, 4):
        save(tmp_path, update, keep=2)
        shutil.copytree(tmp_path / f"update-{update:08d}", tmp_path / f"update-{update:08d}-backup")
    assert [path.name for path in checkpoint_folders(tmp_path)] == ["update-00000002", "update-00000003"]
    assert len(list(tmp_path.glob("*-backup"))) == 3


def test_unscheduled_checkpoint_is_removed_with_the_next_one(tmp_path):
    model, optimizer = stepped()
    for update in (10, 13, 20):
        progress = Progress(update, is_unscheduled=update == 13)
        save_checkpoint(tmp_path, TrainingState(weights(model), optimizer.state_dict(), progress), 5)
    assert names(tmp_path) == ["update-00000010", "update-00000020"]


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.pt", "progress.json", "digests.json"])
@pytest.mark.parametrize("damage", ["cut", "removed", "one bit"])
def test_damaged_checkpoint_is_skipped_reported_and_set_aside(tmp_path, file, damage):
    save(tmp_path, 5)
    path = save(tmp_path, 6) / file
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "one bit":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    reports = []
    assert newest_intact(tmp_path, reports.append) == tmp_path / "update-00000005"
    assert len(reports) == 1 and "update-00000006 is damaged" in reports[0]
    assert names(tmp_path) == ["update-00000005"]
    assert (tmp_path / "update-00000006.damaged").is_dir()


def test_nothing_is_changed_if_all_checkpoints_are_damaged(tmp_path):
    for update in (5, 6):
        (save(tmp_path, update) / "optimizer.pt").unlink()
    with pytest.raises(InputError, match="update-00000005 is damaged") as error:
        newest_intact(tmp_path, print)
    assert "--overwrite true" in str(error.value)
    assert names(tmp_path) == ["update-00000005", "update-00000006"]


def test_folder_without_checkpoints_is_not_an_error(tmp_path):
    assert newest_intact(tmp_path, print) is None


@pytest.mark.parametrize("at", ["model.safetensors", "optimizer.pt", "progress.json", "digests.json"])
def test_full_disk_is_a_clear_error_and_loses_nothing(tmp_path, monkeypatch, at):
    path = save(tmp_path, 5)
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    def fill_up(name):
        def write(*arguments, **options):
            if any(at in str(argument) for argument in arguments):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original[name](*arguments, **options)

        return write

    original = {"save_file": checkpoint.save_file, "save": torch.save, "write_text": checkpoint.Path.write_text}
    monkeypatch.setattr(checkpoint, "save_file", fill_up("save_file"))
    monkeypatch.setattr(torch, "save", fill_up("save"))
    monkeypatch.setattr(checkpoint.Path, "write_text", fill_up("write_text"))
    with pytest.raises(TrainingError, match="step 6 cannot be written .*No space left on device.*update-00000005"):
        save(tmp_path, 6, keep=1)
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == ["update-00000005"]
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert find_damage(path) is None


def test_full_disk_is_reported_as_the_system_does(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            checkpoint._save({number: torch.zeros(20_000) for number in range(10)}, tmp_path / "optimizer.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_kill_while_a_checkpoint_is_replaced_does_not_lose_it(tmp_path):
    path = save(tmp_path, 5)
    path.rename(tmp_path / "update-00000005.old")
    for ending in ("part", "removed"):
        (tmp_path / f"update-00000005.{ending}").mkdir()
    assert newest_intact(tmp_path, print) == path
    assert [entry.name for entry in tmp_path.iterdir()] == ["update-00000005"]


def test_average_is_the_mean_of_the_tensors(tmp_path):
    models = [weights(stepped(seed)[0]) for seed in range(3)]
    paths = [save(tmp_path, update=seed, seed=seed) / "model.safetensors" for seed in range(3)]
    mean = average_weights(load_file(path) for path in paths)
    for name, value in models[0].items():
        expected = sum(model[name].double() for model in models) / 3
        torch.testing.assert_close(mean[name], expected.to(value.dtype), atol=0, rtol=0)


def test_weights_of_another_model_are_rejected():
    with pytest.raises(ValueError, match=r"encoder\.layers\.1"):
        set_weights(tiny_model(encoder_layers=1), weights(tiny_model()))


@pytest.mark.parametrize("text", ["[]", '{"step": "7"}', '{"nonsense": 1}'])
def test_progress_of_a_wrong_shape_is_damage(tmp_path, text):
    path = save(tmp_path)
    (path / "progress.json").write_text(text)
    with pytest.raises(TrainingError, match="update-00000001 is damaged .*progress.json"):
        load_checkpoint(path)


def test_checkpoint_does_not_make_the_output_folder_again(tmp_path):
    with pytest.raises(TrainingError, match="If its folder was moved or removed, put it back, then run the same"):
        save(tmp_path / "moved" / "checkpoints")
    assert list(tmp_path.iterdir()) == []


def other_optimizers():
    model, optimizer = stepped()
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    sgd.step()
    state = optimizer.state_dict()
    larger = {name: torch.zeros(3, 3) if name == "exp_avg" else value for name, value in state["state"][0].items()}
    fewer = torch.optim.Adam(list(model.parameters())[:1]).state_dict()
    return [
        sgd.state_dict(),
        {**state, "state": {0: larger}},
        {**state, "state": {9999: larger}},
        fewer,
        {},
        {"state": 1},
    ]


@pytest.mark.parametrize("number", range(6))
def test_state_of_another_optimizer_is_refused(number):
    with pytest.raises(ValueError, match="the state of another optimizer"):
        set_optimizer_state(stepped()[1], other_optimizers()[number])


def test_state_of_the_same_optimizer_with_a_setting_of_another_release_is_accepted():
    _, optimizer = stepped()
    state = optimizer.state_dict()
    for groups in (
        [{name: value for name, value in group.items() if name != "foreach"} for group in state["param_groups"]],
        [{**group, "new_setting": 1} for group in state["param_groups"]],
    ):
        set_optimizer_state(optimizer, {**state, "param_groups": groups})
