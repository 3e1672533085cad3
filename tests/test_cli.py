"""The commands, with their error messages and exit statuses."""

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

import hf_vaswani
from hf_vaswani.cli import main

from .conftest import largest_file

PROJECT = Path(__file__).parents[1]


@pytest.fixture
def error_of(capsys):
    """Runs a command that must fail, and returns its error lines."""

    def run(*arguments) -> str:
        capsys.readouterr()  # discard earlier output
        assert main([str(argument) for argument in arguments]) == 2
        error = capsys.readouterr().err
        assert all(line.startswith("error: ") for line in error.splitlines())
        return error

    return run


def test_evaluate_prints_bleu_with_its_signature(saved_model, write_lines, capsys):
    source, reference = write_lines("s", ["w1 w2", "w3"]), write_lines("r", ["w1", "w2"])
    assert main(["evaluate", str(saved_model), "--source", source, "--reference", reference]) == 0
    assert "tok:13a" in capsys.readouterr().out


def test_corpus_writes_both_sides_of_each_split(tmp_path):
    assert main(["corpus", str(tmp_path / "corpus")]) == 0
    files = {path.name: path.read_text().splitlines() for path in (tmp_path / "corpus").iterdir()}
    assert sorted(files) == ["test.de", "test.en", "train.de", "train.en", "validation.de", "validation.en"]
    assert len(files["train.de"]) == len(files["train.en"]) > 20_000


def test_train_help_lists_the_recipe_keys(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "--help"])
    assert exit_info.value.code == 0
    assert "warmup_steps" in capsys.readouterr().out


def test_tokenizer_is_learned_from_files_and_saved(write_lines, tmp_path, capsys):
    source = write_lines("train.de", ["", "ein Hund und ein Hase"] * 3)
    target = write_lines("train.en", ["a dog", "a dog and a hare"] * 3)
    folder = tmp_path / "tokenizer"
    options = ["--source", source, "--target", target, "--type", "word", "--joint", "false", "--vocab_size=7"]
    assert main(["tokenizer", str(folder), *options]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0] == f"{folder} contains a tokenizer of 7 source and 7 target tokens (word)."
    assert output[1:] == [
        "source: ein Hund und ein Hase", "  ein Hund <unk> ein Hase </s>",
        "target: a dog and a hare", "  a dog and a <unk> </s>",
    ]  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("Hund", text_target="dog")["labels"] == [5, 2]
    assert main(["tokenizer", f"{folder}2", "--source", source, "--target", source, "--type", "word"]) == 0
    assert "warning: source and target are the same text" in capsys.readouterr().err


def test_tokenizer_command_reports_all_errors_and_leaves_nothing_behind(error_of, write_lines, tmp_path):
    lines, folder = write_lines("text", ["a b"] * 3), tmp_path / "tokenizer"
    files = ["--source", lines, "--target", lines]
    error = error_of("tokenizer", folder, *files, "--type", "words", "--vocab_size", "many")
    assert "--target is missing: the text whose line" in error_of("tokenizer", folder, "--source", lines)
    assert "tokenizer.type must be one of" in error and "tokenizer.vocab_size must be a whole number" in error
    error = error_of("tokenizer", folder, *files, "--type", "word", "--byte_fallback", "true", "--vocab_size", "3")
    assert "byte_fallback=True is for" in error and "vocab_size=3 is too small" in error
    once = write_lines("once", ["a", "b", "c"])
    assert "No word of the source text occurs 2 times" in error_of(
        "tokenizer", folder, "--source", once, "--target", lines, "--type", "word", "--joint", "false"
    )
    assert "exists and is not an empty folder" in error_of("tokenizer", tmp_path, *files)
    assert not folder.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["once", "text"]


def test_missing_file_exits_with_status_2(error_of, saved_model):
    assert "absent.txt does not exist" in error_of("translate", saved_model, "--input", "absent.txt")


@pytest.mark.parametrize("option", [["--batch_size", "0"], ["--num_beams", "-2"], ["--batch_size", "many"]])
def test_invalid_numbers_exit_with_status_2(saved_model, option):
    with pytest.raises(SystemExit) as exit_info:
        main(["translate", str(saved_model), *option])
    assert exit_info.value.code == 2


def test_sides_of_different_length_exit_with_status_2(error_of, saved_model, write_lines):
    source, reference = write_lines("s", ["w1", "w2"]), write_lines("r", ["w1"])
    assert ": line 2 of" in error_of("evaluate", saved_model, "--source", source, "--reference", reference)


def test_folder_without_weights_exits_with_status_2(error_of, saved_model, write_lines):
    (saved_model / "model.safetensors").unlink()
    assert "has no weights" in error_of("translate", saved_model, "--input", write_lines("in", ["w1"]))


def test_folder_with_only_pytorch_weights_gives_the_same_translations(saved_model, write_lines, capsys):
    command = ["translate", str(saved_model), "--input", write_lines("in", ["w1 w2"])]
    main(command)
    expected = capsys.readouterr().out
    torch.save(load_file(saved_model / "model.safetensors"), saved_model / "pytorch_model.bin")
    (saved_model / "model.safetensors").unlink()
    main(command)
    assert capsys.readouterr().out == expected


def test_unknown_recipe_key_exits_with_status_2(error_of, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("data: {dataset: built-in}\ntraining: {output_dir: out, warmup_update: 3}")
    assert "did you mean 'warmup_steps'" in error_of("train", recipe)


def test_corpus_does_not_write_into_a_nonempty_folder(error_of, tmp_path):
    (tmp_path / "mine").write_text("precious")
    assert "is not an empty folder" in error_of("corpus", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_corpus_on_a_full_disk_leaves_no_folder(error_of, tmp_path):
    folder = tmp_path / "corpus"
    with largest_file(100_000):
        assert f"{folder} cannot be written: File too large" in error_of("corpus", folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_script_prints_one_line_and_exits_with_status_2(tmp_path):
    result = subprocess.run(
        [sys.executable, str(PROJECT / "scripts" / "train.py"), str(tmp_path / "absent.yaml")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PROJECT), "PATH": ""},
    )
    assert result.returncode == 2
    assert result.stderr.strip().count("\n") == 0
    assert "absent.yaml does not exist" in result.stderr


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["--version"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out.strip() == f"hf-vaswani {hf_vaswani.__version__}"


def test_curves_are_written_to_the_run_folder(tmp_path, capsys):
    (tmp_path / "log.jsonl").write_text('{"update": 50, "loss": 3.5}\n')
    assert main(["curves", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_curves_of_several_runs_are_written_here_or_to_the_given_path(tmp_path, monkeypatch):
    logs = [tmp_path / name / "log.jsonl" for name in "ab"]
    for log in logs:
        log.parent.mkdir()
        log.write_text('{"update": 50, "loss": 3.5}\n')
    monkeypatch.chdir(tmp_path)
    assert main(["curves", "a", str(logs[1])]) == 0
    assert main(["curves", "a", "b", "--output", "both.pdf"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "both.pdf", "curves.png"]


def test_curves_do_not_replace_a_file_without_overwrite(tmp_path, error_of):
    (tmp_path / "log.jsonl").write_text('{"update": 50, "loss": 3.5}\n')
    photo = tmp_path / "photo.png"
    photo.write_text("of somebody")
    assert "photo.png already exists" in error_of("curves", tmp_path, "--output", photo)
    assert photo.read_text() == "of somebody"
    assert main(["curves", str(tmp_path), "--output", str(photo), "--overwrite"]) == 0
    assert photo.read_bytes().startswith(b"\x89PNG")


def test_curves_never_replace_a_log_through_a_link(tmp_path, error_of):
    log = tmp_path / "log.jsonl"
    log.write_text('{"update": 50, "loss": 3.5}\n')
    (tmp_path / "curves.png").hardlink_to(log)
    assert "curves.png is one of the logs" in error_of("curves", tmp_path)
    assert "curves.png is one of the logs" in error_of(
        "curves", log, "--output", tmp_path / "curves.png", "--overwrite"
    )
    assert log.read_text() == '{"update": 50, "loss": 3.5}\n'


def test_curves_of_a_log_outside_a_run_do_not_replace_a_file(tmp_path, monkeypatch, error_of):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.jsonl").write_text('{"update": 50, "loss": 3.5}\n')
    (tmp_path / "curves.png").write_text("of another")
    assert "curves.png already exists" in error_of("curves", "first.jsonl")
    assert (tmp_path / "curves.png").read_text() == "of another"


def test_curves_of_a_folder_without_a_log_exit_with_status_2(error_of, tmp_path):
    assert "log.jsonl cannot be read: No such file" in error_of("curves", tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("name", ["recipes", pytest.param("evaluate", marks=pytest.mark.slow)])
def test_full_standard_output_is_one_error(write_lines, name):
    text = write_lines("text", ["a b c d", "e"])
    options = {"recipes": [], "evaluate": ["--hypotheses", text, "--reference", text]}[name]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "hf_vaswani", name, *options],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(PROJECT), "PATH": ""},
        )
    assert result.returncode == 2
    assert result.stderr == (
        "error: standard output cannot be written: No space left on device. Free up space, or write elsewhere.\n"
    )


def test_file_in_place_of_a_model_exits_with_status_2(error_of, write_lines):
    text = write_lines("text", ["w1"])
    assert error_of("score", text, "--source", text, "--target", text).startswith(f"error: {text} is a file.")


def test_overlong_file_name_is_rejected(error_of, write_lines):
    lines = write_lines("text", ["a"])
    error = error_of("score", "x" * 300, "--source", lines, "--target", lines)
    assert error == f"error: {'x' * 300}: File name too long. Choose a shorter one.\n"


@pytest.fixture
def output_as(monkeypatch):
    """Gives standard output an encoding, and returns the bytes written to it."""

    def set_encoding(encoding: str) -> io.BytesIO:
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
        return written

    return set_encoding


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("command", [["--help"], ["train", "--help"]])
def test_help_is_shown_in_any_encoding(output_as, encoding, command):
    written = output_as(encoding)
    with pytest.raises(SystemExit) as exit_info:
        main(command)
    sys.stdout.flush()
    assert exit_info.value.code == 0
    assert "usage:" in written.getvalue().decode(encoding)


def test_messages_replace_what_the_encoding_lacks(output_as, saved_model):
    written = output_as("ascii")
    assert main(["beam-tree", str(saved_model), "--text", "w1 ü", "--output", str(saved_model / "tree.svg")]) == 0
    assert b"source       w1 ?\n" in written.getvalue()


def test_results_are_utf_8_in_any_encoding(output_as, saved_model, write_lines):
    written = output_as("ascii")
    scores = write_lines("ü", ["w1 w2"])
    assert main(["evaluate", "--hypotheses", scores, "--reference", scores, "--format", "json"]) == 0
    assert json.loads(written.getvalue().decode("utf-8"))["references"] == [scores]


@pytest.mark.parametrize(
    ("command", "remedy"),
    [("score", "Lower --batch_tokens or --max_length."), ("translate", "Lower --batch_size or --num_workers.")],
)
def test_out_of_memory_is_one_error(monkeypatch, capsys, saved_model, write_lines, command, remedy):
    def load(*arguments, **options):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1024000 bytes.")

    monkeypatch.setattr("hf_vaswani.models.load._load_whole", load)
    text = write_lines("text", ["w1"])
    options = {"score": ["--source", text, "--target", text], "translate": ["--input", text]}[command]
    assert main([command, str(saved_model), *options]) == 1
    assert capsys.readouterr().err == f"error: There is not enough memory. {remedy}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_full_output_is_named(error_of, saved_model, write_lines):
    error = error_of("translate", saved_model, "--input", write_lines("text", ["w1"]), "--output", "/dev/full")
    assert error.startswith("error: /dev/full cannot be written: No space left on device.")


def test_warnings_of_libraries_that_are_not_used_are_not_shown(saved_model, tmp_path, capsys):
    (tmp_path / "in").write_text("w1\n")
    main(["translate", str(saved_model), "--input", str(tmp_path / "in")])
    capsys.readouterr()
    for name in ("torchao", "torchao.kernel", "torch.utils._pytree"):
        assert not logging.getLogger(name).isEnabledFor(logging.WARNING)
