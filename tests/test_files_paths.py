"""Paths that the system rejects: in every command, one clear line each, status 2, and nothing written."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hf_vaswani.training.train  # before privileges are dropped, when it could become unreadable  # noqa: F401
from hf_vaswani.cli import main
from hf_vaswani.files import is_same_file, model_path_error, path_error, where_not_found

NOBODY = 65534
DENIED = "Permission denied. Change its permissions, or choose another."
# Commands by the argument whose path is BAD; TEXT and MODEL exist, and OUT does not.
COMMANDS = {
    "train recipe": ["train", "BAD"],
    "translate model": ["translate", "BAD", "--input", "TEXT"],
    "translate --input": ["translate", "MODEL", "--input", "BAD"],
    "translate --output": ["translate", "MODEL", "--input", "TEXT", "--output", "BAD"],
    "translate --prefix": ["translate", "MODEL", "--input", "TEXT", "--prefix", "BAD"],
    "translate --ensemble": ["translate", "MODEL", "--input", "TEXT", "--ensemble", "BAD"],
    "score model": ["score", "BAD", "--source", "TEXT", "--target", "TEXT"],
    "score --source": ["score", "MODEL", "--source", "BAD", "--target", "TEXT"],
    "score --target": ["score", "MODEL", "--source", "TEXT", "--target", "BAD"],
    "score --ensemble": ["score", "MODEL", "--source", "TEXT", "--target", "TEXT", "--ensemble", "BAD"],
    "evaluate model": ["evaluate", "BAD", "--source", "TEXT", "--reference", "TEXT"],
    "evaluate --source": ["evaluate", "MODEL", "--source", "BAD", "--reference", "TEXT"],
    "evaluate --reference": ["evaluate", "--hypotheses", "TEXT", "--reference", "BAD"],
    "evaluate --hypotheses": ["evaluate", "--hypotheses", "BAD", "--reference", "TEXT"],
    "evaluate --output": ["evaluate", "MODEL", "--source", "TEXT", "--reference", "TEXT", "--output", "BAD"],
    "attention model": ["attention", "BAD", "--text", "w1", "--output", "OUT"],
    "attention --output": ["attention", "MODEL", "--text", "w1", "--output", "BAD"],
    "curves training": ["curves", "BAD", "--output", "OUT"],
    "curves --output": ["curves", "MODEL", "--output", "BAD"],
    "card training": ["card", "BAD"],
    "card --output": ["card", "MODEL", "--output", "BAD"],
    "average source": ["average", "BAD", "--output", "OUT"],
    "average --output": ["average", "MODEL", "--output", "BAD"],
    "corpus folder": ["corpus", "BAD"],
    "tokenizer output": ["tokenizer", "BAD", "--source", "TEXT", "--target", "TEXT"],
    "tokenizer --source": ["tokenizer", "OUT", "--source", "BAD", "--target", "TEXT"],
    "tokenizer --target": ["tokenizer", "OUT", "--source", "TEXT", "--target", "BAD"],
    "tokenizer --file": ["tokenizer", "OUT", "--file", "BAD"],
    "tokenizer --dataset": ["tokenizer", "OUT", "--dataset", "BAD"],
    "import source": ["import", "BAD", "OUT"],
    "import output": ["import", "MODEL", "BAD"],
    "import --vocabularies": ["import", "MODEL", "OUT", "--vocabularies", "BAD"],
    "export model": ["export", "BAD", "OUT"],
    "export output": ["export", "MODEL", "BAD"],
    "export --sample": ["export", "MODEL", "OUT", "--to", "ctranslate2", "--sample", "BAD"],
    "export --source": ["export", "MODEL", "OUT", "--to", "onnx", "--source", "BAD", "--reference", "TEXT"],
    "export --reference": ["export", "MODEL", "OUT", "--to", "onnx", "--source", "TEXT", "--reference", "BAD"],
    "push folder": ["push", "BAD", "you/de-en"],
}
# Keys of a recipe, and how their errors begin.
KEYS = {
    "train_source": "data.train", "train_target": "data.train", "validation_source": "data.validation",
    "validation_target": "data.validation", "test_source": "data.test", "test_target": "data.test",
    "tests": "data.tests.further", "dataset": "data.train", "tokenizer.path": "tokenizer.path",
    "start_from": "training.start_from", "output_dir": "training.output_dir", "cache_dir": "data.cache_dir",
}  # fmt: skip


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run the block without root privileges, since root can enter every folder."""
    if not hasattr(os, "setresuid"):
        pytest.skip("rights cannot be given up here")
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def folder():
    """A world-writable folder with a text, a model folder, a looping link, and `closed`, which only root can enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "text").write_text("w1\n")
        (folder / "model").mkdir()
        (folder / "closed").mkdir(0o000)
        (folder / "loop").symlink_to(folder / "loop")
        yield folder


@pytest.fixture
def errors_of(folder, capsys):
    """Runs a command that must fail, without root privileges, and returns its error lines."""

    def run(command: list[str], bad: str) -> list[str]:
        names = {"BAD": bad, "TEXT": f"{folder}/text", "MODEL": f"{folder}/model", "OUT": f"{folder}/out.png"}
        capsys.readouterr()
        with unprivileged():
            assert main([names.get(part, part) for part in command]) == 2
        assert sorted(path.name for path in folder.iterdir()) == ["closed", "loop", "model", "text"]
        out, error = capsys.readouterr()
        assert out == ""
        return error.splitlines()

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_inaccessible_folder_is_one_clear_error(errors_of, folder, name):
    bad = f"{folder}/closed/file.png"
    assert errors_of(COMMANDS[name], bad) == [f"error: {bad}: {DENIED}"]


@pytest.mark.parametrize("name", COMMANDS)
def test_link_to_itself_is_one_clear_error(errors_of, folder, name):
    bad = f"{folder}/loop"
    message = f"error: {bad}: Too many levels of symbolic links. The symbolic links form a loop: choose another."
    assert errors_of(COMMANDS[name], bad) == [message]


@pytest.mark.parametrize("name", COMMANDS)
def test_invalid_file_name_is_one_clear_error(errors_of, name):
    message = "error: 'a\\x00b' is not a valid file name: it contains a NUL or is not UTF-8. Choose another."
    assert errors_of(COMMANDS[name], "a\0b") == [message]


def test_all_path_errors_are_reported_together(errors_of, folder):
    bad = [f"{folder}/closed/{name}" for name in ("model", "text", "output")]
    errors = errors_of(["translate", bad[0], "--input", bad[1], "--output", bad[2]], "")
    assert errors == [f"error: {path}: {DENIED}" for path in bad]


def test_file_in_an_inaccessible_folder_is_one_clear_error(errors_of, folder):
    for command in ("average BAD --output OUT", "translate BAD --input TEXT", "curves BAD --output OUT", "card BAD"):
        [error] = errors_of(command.split(), f"{folder}/closed")
        assert error.startswith(f"error: {folder}/closed/") and error.endswith(DENIED)


@pytest.fixture
def train(recipe_file, capsys):
    """Runs a training command that must fail, without root privileges, and returns its error lines."""
    usual = dict.fromkeys(("train_source", "train_target", "validation_source", "validation_target"), "text")

    def run(**options: str) -> list[str]:
        given = {} if "dataset" in options else {name: str(recipe_file.parent / path) for name, path in usual.items()}
        given |= {"output_dir": str(recipe_file.parent / "out"), **options}
        capsys.readouterr()
        with unprivileged():
            assert main(["train", str(recipe_file), *(f"--{name}={value}" for name, value in given.items())]) == 2
        assert not (recipe_file.parent / "out").exists()
        return capsys.readouterr().err.splitlines()

    return run


@pytest.fixture
def recipe_file(folder):
    path = folder / "recipe.yaml"
    path.write_text("training: {max_steps: 1}")
    return path


@pytest.mark.parametrize("key", KEYS)
def test_bad_path_in_a_recipe_is_one_clear_error(train, folder, key):
    closed, loop = f"{folder}/closed/file", f"{folder}/loop/file"
    for bad, reason in ((closed, "Permission denied"), (loop, "Too many levels of symbolic links")):
        options = {key: f"{{further: {{source: {bad}, target: {bad}}}}}" if key == "tests" else bad}
        if key.startswith("test_"):
            options = {"test_source": bad, "test_target": bad}
        errors = train(**options)
        assert errors and all(error.startswith(f"error: {KEYS[key]}: {bad}: {reason}.") for error in errors)


def test_all_path_errors_of_a_recipe_are_reported_together(train, folder):
    bad = f"{folder}/closed/file"
    errors = train(train_source=bad, validation_target=bad, output_dir=bad, cache_dir=bad)
    keys = ("data.train", "data.validation", "training.output_dir", "data.cache_dir")
    assert errors == [f"error: {key}: {bad}: {DENIED}" for key in keys]


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 there")
def test_file_with_a_non_utf8_name_can_be_read_but_not_written(tmp_path, capsys):
    name = os.fsencode(tmp_path) + b"/caf\xe9"
    with open(name, "w") as file:
        file.write("a b c d\n")
    path = os.fsdecode(name)
    assert main(["evaluate", "--hypotheses", path, "--reference", path, "--metrics", "chrf"]) == 0
    assert capsys.readouterr().out.startswith("chrF2 100.00")
    assert main(["corpus", f"{path}_corpus"]) == 2
    message = "/caf\\udce9_corpus' is not a valid file name: it contains a NUL or is not UTF-8. Choose another.\n"
    assert capsys.readouterr().err.endswith(message)


def test_nonexistent_path_may_be_written(tmp_path):
    assert path_error(tmp_path) is path_error(tmp_path / "none" / "file", is_output=True) is None


def test_descriptor_is_not_the_same_file_as_a_missing_path(tmp_path):
    with open(tmp_path / "there", "w") as file:
        assert not is_same_file(file.fileno(), tmp_path / "absent")
        assert not is_same_file(tmp_path / "absent", file.fileno())
        assert is_same_file(file.fileno(), tmp_path / "there")


def test_similar_folder_name_is_suggested(tmp_path):
    (tmp_path / "quick").mkdir()
    assert where_not_found(tmp_path / "quik") == f" is not a local folder (did you mean {tmp_path / 'quick'}?), and"
    assert where_not_found(tmp_path / "other") == where_not_found("no/such/folder") == " is not a local folder, and"
    assert where_not_found(tmp_path / "quick") == ""


def test_path_that_cannot_be_a_hub_id_must_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/quick").mkdir(parents=True)
    end = "Specify a folder that does, or an id on the Hub."
    assert model_path_error("./runs/quik") == f"./runs/quik does not exist (did you mean runs/quick?). {end}"
    for path in ("~/m", "../m", "/m", "a/b/c", "a\\b"):
        assert model_path_error(path) == f"{path} does not exist. {end}"
    assert [model_path_error(path) for path in ("m", "someone/m", "runs/quick", "./runs")] == [None] * 4


@pytest.mark.parametrize("command", ["translate", "score", "evaluate", "attention", "export", "import"])
def test_no_command_looks_for_a_path_on_the_hub(command, tmp_path, monkeypatch, capsys):
    text, output = tmp_path / "text", str(tmp_path / "out")
    text.write_text("one\n")
    sides = {"score": "--target", "evaluate": "--reference"}
    options = {
        "translate": ["--input", str(text)],
        "attention": ["--text", "w1", "--output", output],
        "export": [output],
        "import": [output],
    }.get(command, ["--source", str(text), sides.get(command, ""), str(text)])
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the Hub"))
    assert main([command, "./absent/model", *options]) == 2
    assert "error: ./absent/model does not exist. Specify a folder" in capsys.readouterr().err
