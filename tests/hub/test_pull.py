"""Downloading over HTTP: models, runs with their last checkpoint, and interrupted downloads."""

import subprocess
import sys

import pytest
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.hub.pull import targets_of
from hf_vaswani.hub.repository import hub_errors

from .fake_hub import environment


@pytest.fixture
def repository(hub_here, saved_model):
    """The files of a repository with a model."""
    assert main(["push", str(saved_model), "you/de-en"]) == 0
    return hub_here.repositories["you/de-en"]["main"]


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def error_of(capsys, *arguments) -> str:
    assert main(["pull", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Traceback" not in error
    return error


def test_pulled_model_matches_the_pushed_one(repository, hub_here, saved_model, tmp_path, capsys):
    others = {".gitattributes": b"*.pt", "update-00000004/optimizer.pt": b"x"}
    hub_here.repositories["you/de-en"]["main"] = repository | others
    capsys.readouterr()
    assert main(["pull", "you/de-en", str(tmp_path / "new" / "pulled")]) == 0
    assert capsys.readouterr().out == f"The model is in {tmp_path / 'new' / 'pulled'}\n"
    assert contents(tmp_path / "new" / "pulled") == repository
    texts = [pipeline("translation", model=str(folder), max_new_tokens=4)("w1 w2") for folder in
             (saved_model, tmp_path / "new" / "pulled")]  # fmt: skip
    assert texts[0] == texts[1]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pulled"]


def test_branches_and_commits_are_pulled_by_name(repository, hub_here, saved_model, tmp_path):
    (saved_model / "README.md").write_text("---\nlicense: mit\n---\n")
    assert main(["push", str(saved_model), "you/de-en", "--revision", "draft"]) == 0
    for revision, has_card in (("draft", True), ("main", False), (f"{1:040x}", False), (f"{2:040x}", True)):
        assert main(["pull", "you/de-en", str(tmp_path / revision), "--revision", revision]) == 0
        assert (tmp_path / revision / "README.md").exists() is has_card


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_interrupted_pull_leaves_no_folder_and_a_second_one_completes_it(
    repository, hub_here, tmp_path, monkeypatch, capsys, is_killed
):
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    hub_here.cuts_off = 1000
    if is_killed:
        command = [sys.executable, "-m", "hf_vaswani", "pull", "you/de-en", str(tmp_path / "pulled")]
        pulling = subprocess.Popen(command, env=environment(hub_here, tmp_path), stderr=subprocess.DEVNULL)
        assert hub_here.held.wait(120)
        pulling.kill()
        pulling.wait()
    else:
        assert "pulled" not in error_of(capsys, "you/de-en", tmp_path / "pulled").replace(str(tmp_path), "")
    assert not (tmp_path / "pulled").exists()
    hub_here.cuts_off = None
    assert main(["pull", "you/de-en", str(tmp_path / "pulled")]) == 0
    assert contents(tmp_path / "pulled") == repository
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".pulled")]


def test_leftovers_of_an_interrupted_pull_of_another_commit_are_not_used(repository, hub_here, tmp_path):
    left = tmp_path / ".pulled.part"
    left.mkdir()
    (left / "pytorch_model.bin").write_bytes(b"old")
    (left / "config.json").write_bytes(b"old")
    assert main(["pull", "you/de-en", str(tmp_path / "pulled")]) == 0
    assert contents(tmp_path / "pulled") == repository


def test_nonempty_folder_is_rejected_and_untouched(repository, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    assert "not an empty folder" in error_of(capsys, "you/de-en", tmp_path / "mine")
    assert contents(tmp_path / "mine") == {"file": b"mine"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["you/absent"], "there is no such model, or the token has no access to it"),
        (["our-lab/secret"], "there is no such model, or the token has no access to it"),
        (["you/text"], "you/text is a dataset on the Hub, not a model"),
        (["a/b/c"], "'a/b/c' is not a valid repository name"),
        (["you/de-en", "--revision", "absent"], "it has no branch, tag or commit 'absent'"),
        (["you/empty"], "contains neither a model nor a run"),
    ],
)
def test_each_failure_is_one_error(repository, hub_here, tmp_path, monkeypatch, capsys, arguments, message):
    hub_here.others["you/text"] = "dataset"
    hub_here.repositories |= {"our-lab/secret": {"main": {}}, "you/empty": {"main": {"README.md": b""}}}
    hub_here.private["our-lab/secret"] = True
    monkeypatch.setenv("HF_TOKEN", "reader")
    capsys.readouterr()
    name, *options = arguments
    assert message in error_of(capsys, name, tmp_path / "pulled", *options)
    assert not (tmp_path / "pulled").exists()


def test_wrong_token_offline_mode_and_no_network_are_one_error_each(repository, tmp_path, monkeypatch, capsys):
    capsys.readouterr()
    monkeypatch.setenv("HF_TOKEN", "wrong")
    assert "does not accept the token" in error_of(capsys, "you/de-en", tmp_path / "pulled")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert "Connection refused" in error_of(capsys, "you/de-en", tmp_path / "pulled")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in error_of(capsys, "you/de-en", tmp_path / "pulled")


def test_model_is_pulled_with_a_run_only_once_it_is_finished():
    run = ["last-checkpoint/training_recipe.yaml", "last-checkpoint/checkpoints/update-00000004/optimizer.pt"]
    moved = {name: name.removeprefix("last-checkpoint/") for name in run}
    model = ["config.json", "model.safetensors", ".gitattributes", "update-00000004/optimizer.pt"]
    assert targets_of([*run, *model]) == moved
    finished = {name: name for name in ("config.json", "model.safetensors", "results.json")}
    assert targets_of([*run, *model, "results.json"]) == finished | moved


@pytest.mark.parametrize(
    "name",
    ["last-checkpoint//{out}/x", "{out}/x", "../x", "a/../../x", "a//x", "./x", "a/.", "x/", "", "a\\x", "\\\\a\\x",
     "C:/x", "a/C:x", "a\0x", "\ud800"],
)  # fmt: skip
def test_file_with_a_name_that_could_lead_elsewhere_is_not_downloaded(repository, hub_here, tmp_path, capsys, name):
    run = {"last-checkpoint/checkpoints/update-00000004/x": b"x"}
    hub_here.repositories["you/de-en"]["main"] = repository | run | {name.format(out=tmp_path / "out"): b"x"}
    capsys.readouterr()
    assert "could be written outside" in error_of(capsys, "you/de-en", tmp_path / "pulled")
    assert not [path for path in tmp_path.iterdir() if "pulled" in path.name or path.name in ("out", "x")]


@pytest.mark.parametrize(
    ("link", "target"), [("", ""), (".lock", "file"), ("config.json", "file"), ("tokenizer", ""), ("x", "absent")]
)
def test_links_in_the_folder_of_an_interrupted_pull_are_not_followed(repository, tmp_path, capsys, link, target):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    path = tmp_path / ".pulled.part" / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "mine" / target)
    capsys.readouterr()
    assert "is a symbolic link" in error_of(capsys, "you/de-en", tmp_path / "pulled")
    assert contents(tmp_path / "mine") == {"file": b"mine"} and not (tmp_path / "pulled").exists()


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (FileExistsError(17, "File exists", "/x/config.json"), "File exists (config.json)."),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer. Try again."),
    ],
)
def test_only_a_lost_connection_is_worth_another_try(error, reported):
    with pytest.raises(InputError) as raised, hub_errors("you/de-en", "you/de-en cannot be downloaded"):
        raise error
    assert str(raised.value) == f"you/de-en cannot be downloaded: {reported}"
