"""Runs that upload their model, over HTTP: what is on the Hub and when, and that the run never depends on it."""

import signal

import pytest
from huggingface_hub import ModelCard
from safetensors.torch import load, load_file
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.errors import TrainingError, TrainingInterrupted
from hf_vaswani.hub.push import files_to_push
from hf_vaswani.training.checkpoints.checkpoint import newest_intact
from hf_vaswani.training.publishing import uploads
from hf_vaswani.training.publishing.uploads import HubUploads
from hf_vaswani.training.run import TrainingRun
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from ...hub.fake_hub import environment
from ..helpers import losses, records, records_without_timings, run_training, same_weights, start_training

PUSH = ("--push_to_hub=true", "--hub_model_id=you/de-en")
RUN = "last-checkpoint"


def contents(files: dict[str, bytes], folder: str) -> set[str]:
    """The names of the files and folders in a folder of a repository."""
    return {name.removeprefix(f"{folder}/").split("/")[0] for name in files if name.startswith(f"{folder}/")}


def histories(hub) -> list[dict[str, bytes]]:
    """The files after each commit, in order."""
    return [files for _, files in hub.history.values()]


@pytest.mark.parametrize("function", [train, train_with_trainer])
@pytest.mark.slow
def test_strategy_end_makes_one_commit_of_the_finished_model(hub_here, recipe, function):
    folder = function(recipe(*PUSH, "--hub_strategy=end", "--hub_private_repo=true")).folder
    assert hub_here.messages == ["End of training"] and hub_here.private["you/de-en"]
    files = hub_here.repositories["you/de-en"]["main"]
    assert files == {name: (folder / name).read_bytes() for name in files_to_push(folder)}
    assert {"model.safetensors", "README.md", "results.json", "modeling_vaswani.py", "tokenizer.json"} <= files.keys()
    assert 'model="you/de-en"' in files["README.md"].decode()
    assert not (folder / ".uploads").exists()


@pytest.fixture
def in_turn(monkeypatch):
    """Makes a run wait for each upload, so that none is skipped."""
    add = uploads.BackgroundUploads.add

    def add_and_wait(self, upload):
        add(self, upload)
        self.wait()

    monkeypatch.setattr(uploads.BackgroundUploads, "add", add_and_wait)


@pytest.fixture
def at_step(monkeypatch):
    """Runs an action after a step, before its checkpoint."""
    actions, original = {}, TrainingRun.end_step

    def end_step(self, batches, loss, is_told_to_stop):
        action = actions.get(self.progress.step + 1)
        return original(self, batches, loss, bool(action and action()) or is_told_to_stop)

    monkeypatch.setattr(TrainingRun, "end_step", end_step)
    return actions.__setitem__


@pytest.fixture
def no_pauses(monkeypatch):
    """Makes huggingface_hub retry without pauses."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)


def test_files_behind_links_are_not_uploaded_with_a_run(hub_here, recipe, at_step, tmp_path, capsys):
    (tmp_path / "precious").write_bytes(b"precious")
    at_step(4, lambda: (tmp_path / "out" / "tokenizer" / "mine.json").symlink_to(tmp_path / "precious"))
    train(recipe(*PUSH, "--hub_strategy=checkpoint"))
    assert "was not uploaded" in (output := capsys.readouterr().out) and "mine.json points outside" in output
    assert not any(b"precious" in files.values() for files in histories(hub_here))


IN_TURN = [*(f"Training in progress, step {step}" for step in (4, 8, 12)), "End of training"]


@pytest.mark.parametrize("function", [train, pytest.param(train_with_trainer, marks=pytest.mark.slow)])
def test_strategy_every_save_commits_a_loadable_model_for_each_checkpoint(
    hub_here, recipe, in_turn, tmp_path, function
):
    folder = function(recipe(*PUSH)).folder
    assert hub_here.messages == IN_TURN
    *unfinished, last = histories(hub_here)
    for step, files in zip((4, 8, 12), unfinished):
        expected = load_file(folder / "checkpoints" / f"update-{step:08d}" / "model.safetensors")
        uploaded = load(files["model.safetensors"])
        assert uploaded.keys() == expected.keys() and all(uploaded[n].equal(expected[n]) for n in expected)
        assert f"after {step} steps" in files["README.md"].decode() and "results.json" not in files
        assert not [name for name in files if "/" in name]
    for name, content in unfinished[0].items():
        (tmp_path / "early").mkdir(exist_ok=True)
        (tmp_path / "early" / name).write_bytes(content)
    assert ModelCard.load(tmp_path / "early" / "README.md").data.pipeline_tag == "translation"
    assert pipeline("translation", model=str(tmp_path / "early"))("a b")[0]["translation_text"] is not None
    assert last == {name: (folder / name).read_bytes() for name in files_to_push(folder)}


@pytest.mark.parametrize("function", [train, train_with_trainer])
@pytest.mark.slow
def test_strategy_checkpoint_also_commits_what_the_run_resumes_from(hub_here, recipe, in_turn, function):
    function(recipe(*PUSH, "--hub_strategy=checkpoint"))
    assert hub_here.messages == IN_TURN
    checkpoints = [contents(files, f"{RUN}/checkpoints") for files in histories(hub_here)]
    # Two are averaged: the newest and the one before it.
    first, second, third = ("update-00000004", "update-00000008", "update-00000012")
    assert checkpoints == [{first}, {first, second}, {second, third}, {second, third}]
    best = [contents(files, f"{RUN}/best") for files in histories(hub_here)]
    assert [len(names) for names in best] == [0, 1, 1, 1]
    run = {"training_recipe.yaml", "trail.json", "log.jsonl", "tokenizer", "architecture", "checkpoints", "best"}
    assert contents(histories(hub_here)[-1], RUN) == run
    assert not [name for name in histories(hub_here)[-1] if name.startswith("update-")]


# Everything random, and everything that has state.
ALL_AT_ONCE = (
    "--gradient_accumulation_steps=2", "--bpe_dropout=0.2", "--ema_decay=0.9", "--max_tokens=60", "--save_steps=3",
    "--logging_steps=2", "--eval_steps=2", "--keep_best=2", "--save_total_limit=3", "--average_last=3",
)  # fmt: skip


@pytest.mark.parametrize("function", [train, pytest.param(train_with_trainer, marks=pytest.mark.slow)])
def test_pulled_run_resumes_bit_for_bit(hub_here, recipe, at_step, tmp_path, function):
    whole = function(recipe(*ALL_AT_ONCE, output="whole")).folder
    at_step(7, lambda: True)
    with pytest.raises(TrainingInterrupted):
        function(recipe(*ALL_AT_ONCE, *PUSH, "--hub_strategy=checkpoint", output="elsewhere"))
    at_step(7, lambda: False)
    assert hub_here.messages[-1] == "Training in progress, step 7"
    assert main(["pull", "you/de-en", str(tmp_path / "pulled")]) == 0
    assert not (tmp_path / "pulled" / "model.safetensors").exists()
    function(recipe(*ALL_AT_ONCE, *PUSH, "--hub_strategy=checkpoint", output="pulled"))
    assert records_without_timings(tmp_path / "pulled") == records_without_timings(whole)
    assert same_weights(tmp_path / "pulled", whole)
    for name in ("checkpoints", "best"):
        folders = [sorted(path.name for path in (folder / name).iterdir()) for folder in (tmp_path / "pulled", whole)]
        assert folders[0] == folders[1]
    assert hub_here.messages[-1] == "End of training"


@pytest.mark.slow
def test_pulled_finished_run_has_its_model_and_can_be_trained_further(hub_here, recipe, tmp_path, in_turn):
    whole = train(recipe("--max_steps=16", output="whole")).folder
    first = train(recipe(*PUSH, "--hub_strategy=checkpoint", output="first")).folder
    assert main(["pull", "you/de-en", str(tmp_path / "pulled")]) == 0
    for name in files_to_push(first):
        assert (tmp_path / "pulled" / name).read_bytes() == (first / name).read_bytes()
    assert same_weights(train(recipe("--max_steps=16", output="pulled")).folder, whole)


def test_uploaded_run_does_not_reveal_local_paths_or_the_token(hub_here, recipe, tmp_path):
    train(recipe(*PUSH, "--hub_strategy=checkpoint", f"--cache_dir={tmp_path / 'cache'}", "--num_proc=1"))
    for name, content in hub_here.repositories["you/de-en"]["main"].items():
        assert str(tmp_path).encode() not in content, name
        assert b"writer" not in content, name


@pytest.mark.parametrize("strategy", ["every_save", pytest.param("checkpoint", marks=pytest.mark.slow)])
def test_rejected_uploads_do_not_change_the_run_and_are_retried_at_the_end(
    hub_here, recipe, at_step, capsys, in_turn, strategy
):
    plain = train(recipe(output="plain")).folder

    def answer(status):
        hub_here.refuses = status

    at_step(8, lambda: answer(403))
    at_step(12, lambda: answer(0) if strategy == "every_save" else None)
    finish = HubUploads.finish
    pushed = recipe(*PUSH, f"--hub_strategy={strategy}", output="pushed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HubUploads, "finish", lambda self: (answer(0), finish(self)))
        folder = train(pushed).folder
    assert losses(folder) == losses(plain) and same_weights(folder, plain)
    output = capsys.readouterr().out
    assert "warning: step 8 was not uploaded" in output and "the token may not write there" in output
    later = ["Training in progress, step 12", "End of training"]
    assert hub_here.messages == ["Training in progress, step 4", *later]
    if strategy == "checkpoint":
        files = hub_here.repositories["you/de-en"]["main"]
        assert contents(files, f"{RUN}/checkpoints") == {"update-00000008", "update-00000012"}


@pytest.mark.slow
def test_model_is_kept_if_the_hub_is_down_at_the_end_and_can_be_pushed_later(
    hub_here, recipe, at_step, monkeypatch, tmp_path, no_pauses
):
    plain = train(recipe(output="plain")).folder
    at_step(12, lambda: monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9"))
    with pytest.raises(TrainingError) as error:
        train(recipe(*PUSH, "--hub_strategy=end", "--hub_revision=draft", output="pushed"))
    folder = tmp_path / "pushed"
    assert f"hf-vaswani push {folder} you/de-en --revision draft" in str(error.value)
    assert f"saved in {folder}" in str(error.value)
    assert same_weights(folder, plain)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub_here.address)
    assert main(["push", str(folder), "you/de-en", "--revision", "draft"]) == 0
    files = hub_here.repositories["you/de-en"]["draft"]
    assert files == {name: (folder / name).read_bytes() for name in files_to_push(folder)}


@pytest.mark.slow
def test_hub_that_never_answers_delays_neither_the_run_nor_its_end(hub_here, recipe, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(uploads, "LEAST_SECONDS", 0.3)
    hub_here.holds_commits = True
    plain = train(recipe(output="plain")).folder
    with pytest.raises(TrainingError, match="did not respond within"):
        train(recipe(*PUSH, output="pushed"))
    assert same_weights(tmp_path / "pushed", plain)
    assert "warning: step 4 was not uploaded. The Hub did not respond" in capsys.readouterr().out
    assert not (tmp_path / "pushed" / ".uploads").exists()


@pytest.mark.slow
def test_late_upload_contains_the_state_at_its_checkpoint(hub_here, recipe, monkeypatch):
    late = []
    monkeypatch.setattr(uploads.BackgroundUploads, "add", lambda self, upload: late.append(upload))
    monkeypatch.setattr(HubUploads, "finish", lambda self: None)
    keeping = ("--save_total_limit=1", "--average_last=1", "--save_steps=3")
    folder = train(recipe(*PUSH, "--hub_strategy=checkpoint", *keeping)).folder
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["update-00000012"]
    for step, upload in zip((3, 6, 9, 12), late, strict=True):
        run = upload.folder / RUN
        assert newest_intact(run / "checkpoints", print).name == f"update-{step:08d}"
        assert [record["update"] for record in records(run) if "loss" in record] == list(range(1, step + 1))


@pytest.mark.slow
def test_full_disk_skips_an_upload_and_does_not_end_the_run(hub_here, recipe, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hf_vaswani.training.publishing.uploads.write_portable_run", refuse)
    folder = train(recipe(*PUSH, "--hub_strategy=checkpoint")).folder
    assert hub_here.messages == ["End of training"]
    assert "warning: step 4 was not uploaded: No space left on device" in capsys.readouterr().out
    assert not (folder / ".uploads").exists()


@pytest.mark.slow
def test_results_of_an_earlier_model_are_removed_when_training_continues(hub_here, recipe, in_turn):
    train(recipe(*PUSH, "--attention=1"))
    assert {"results.json"} < histories(hub_here)[-1].keys() and contents(histories(hub_here)[-1], "pictures")
    done = hub_here.commits
    train(recipe(*PUSH, "--attention=1", "--max_steps=16"))
    files = histories(hub_here)[done]
    assert "results.json" not in files and not contents(files, "pictures")
    assert "after 16 steps" in files["README.md"].decode()


def test_repository_is_named_after_the_folder_in_the_users_namespace(hub_here, recipe):
    train(recipe("--push_to_hub=true", "--max_steps=2", "--hub_strategy=end", output="my-model"))
    assert list(hub_here.repositories) == ["you/my-model"]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["scripts/train.py", "scripts/train_trainer.py"])
def test_two_processes_upload_once(hub, recipe, tmp_path, script, monkeypatch):
    for name, value in environment(hub, tmp_path).items():
        monkeypatch.setenv(name, value)
    output = run_training(
        recipe, *PUSH, "--hub_strategy=checkpoint", f"--output_dir={tmp_path / 'two'}", processes=2, script=script
    )
    assert hub.messages == IN_TURN, output
    assert output.count("The model is on the Hub") == 1


@pytest.mark.slow
def test_two_processes_stopped_by_a_signal_upload_their_last_checkpoint(hub, recipe, tmp_path, monkeypatch):
    for name, value in environment(hub, tmp_path).items():
        monkeypatch.setenv(name, value)
    options = (*PUSH, "--hub_strategy=checkpoint", "--max_steps=100000", "--save_steps=100000")
    process = start_training(recipe, *options, f"--output_dir={tmp_path / 'out'}", processes=2)
    for line in process.stdout:
        if line.startswith("step 3:"):
            process.send_signal(signal.SIGTERM)
            break
    process.communicate(timeout=120)
    [message] = hub.messages
    [last] = (tmp_path / "out" / "checkpoints").iterdir()
    assert message == f"Training in progress, step {int(last.name[7:])}"
