"""Preparing training text without training, in this process and on Ray."""

import os
from pathlib import Path

import pytest

from hf_vaswani.cli import main
from hf_vaswani.data import prepared
from hf_vaswani.errors import InputError
from hf_vaswani.training.build import prepare
from hf_vaswani.training.train import train

from ..scripts.conftest import load_script

PROJECT = Path(__file__).parents[2]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def large_recipe(recipe, tmp_path, write_lines):
    """The recipe with 2,500 pairs, three batches, and a cache of its own."""
    sides = [
        f"--train_{side}={write_lines(f'large.{side}', [f'{letter} {n % 7} {n}' for n in range(2500)])}"
        for side, letter in (("source", "a"), ("target", "b"))
    ]
    return lambda cache, *options: recipe(*sides, f"--cache_dir={tmp_path / cache}", *options)


def test_text_tokenized_elsewhere_is_cached_as_the_same_bytes(large_recipe, tmp_path):
    sizes = []

    def encode_elsewhere(encoder, batches):
        for batch in batches:
            sizes.append([len(side) for side in batch])
            yield encoder(batch)

    assert prepare(large_recipe("one")) == prepare(large_recipe("others"), encode_elsewhere) == 2500
    assert sizes == [[1000, 1000], [1000, 1000], [500, 500]]
    assert contents(tmp_path / "others") == contents(tmp_path / "one")
    assert len(contents(tmp_path / "one")) == 5  # text, its summary, ids, and checksums of both


def test_training_uses_the_prepared_text(large_recipe, monkeypatch):
    prepare(large_recipe("cache"))

    def fail(*_):
        raise AssertionError("prepared again")

    monkeypatch.setattr(prepared, "encode_to_file", fail)
    monkeypatch.setattr(prepared, "write_text", fail)
    assert train(large_recipe("cache", "--max_steps=2")).steps == 2


def test_all_errors_are_reported_together(recipe):
    with pytest.raises(InputError) as error:
        prepare(recipe("--train_source=absent", "--tokenizer.path=nowhere", "--streaming=true", "--max_length=9"))
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == [
        "data.train", "tokenizer.path", "data.streaming",
    ]  # fmt: skip


@pytest.mark.slow
def test_ray_fills_the_cache_with_the_same_bytes_as_one_process(large_recipe, recipe, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray")
    script = load_script("prepare_on_ray")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    assert prepare(large_recipe("one")) == 2500
    sides = [f"--train_{side}={tmp_path / f'large.{side}'}" for side in ("source", "target")]
    options = ["--num_actors", "2", "--address", "local", *recipe.command, *sides]
    status = main(
        [*options, f"--cache_dir={tmp_path / 'ray'}", f"--output_dir={tmp_path / 'out'}"], script.make_parser()
    )
    assert (status, capsys.readouterr().out) == (0, "2,500 training pairs prepared.\n")
    assert contents(tmp_path / "ray") == contents(tmp_path / "one")
    assert not (tmp_path / "out").exists()
