"""The stages of a run: each does its work once and passes on what it has opened."""

import traceback
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator

from hf_vaswani.data.sources.text_source import TextSource
from hf_vaswani.errors import InputError
from hf_vaswani.models import load
from hf_vaswani.training import run
from hf_vaswani.training.check import CheckedRecipe, check
from hf_vaswani.training.reporting import teacher
from hf_vaswani.training.setup import inputs, tokenizer_and_model
from hf_vaswani.training.train import processes_of, train


@pytest.fixture
def calls(monkeypatch):
    """Counts the calls of functions."""

    def count(owner, name):
        called, original = [], getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: called.append(name) or original(*arguments))
        return called

    return count


def test_sources_are_parsed_once(recipe, calls):
    parsed = calls(TextSource, "parse")
    train(recipe("--max_steps=1"))
    assert len(parsed) == 3  # training, validation and test text


@pytest.mark.slow
def test_tokenizer_and_model_are_opened_once_for_fine_tuning(recipe, calls):
    first = train(recipe("--max_steps=1", output="first")).folder
    models, tokenizers = calls(tokenizer_and_model, "read_model"), calls(tokenizer_and_model, "tokenizer_of")
    train(recipe(f"--start_from={first}", "--max_steps=1", output="second"))
    assert (len(models), len(tokenizers)) == (1, 1)


def test_teacher_and_compared_model_are_opened_once(recipe, calls, monkeypatch):
    first = train(recipe("--max_steps=1", output="first")).folder
    monkeypatch.setattr(teacher, "SHORTEST", 0.0)
    teachers, compared = calls(inputs, "read_model"), calls(load, "load_ensemble")
    options = (f"--distill_from={first}", f"--tokenizer.path={first}", f"--compare_with={first}", "--max_steps=1")
    assert train(recipe(*options, output="second")).teacher
    assert (len(teachers), len(compared)) == (1, 1)


@pytest.mark.slow
def test_checked_recipe_holds_what_the_checks_have_opened(recipe, tmp_path):
    first = train(recipe("--max_steps=1", output="first")).folder
    for options, has_model in ((f"--tokenizer.path={first}",), False), ((f"--start_from={first}",), True):
        given = recipe(*options, output="second")
        with processes_of(given) as processes:
            checked = check(given, processes)
        assert isinstance(checked, CheckedRecipe) and list(checked.sources) == ["train", "validation", "test"]
        opened = {name for name in ("tokenizer", "model") if vars(checked.inputs).get(name) is not None}
        assert opened == ({"tokenizer", "model"} if has_model else {"tokenizer"})
    assert not (tmp_path / "second").exists()


def test_layerdrop_with_fsdp_is_rejected_early_along_with_other_errors(recipe, monkeypatch):
    start = train(recipe("--max_steps=1", "--encoder_layerdrop=0.5", output="start")).folder
    monkeypatch.setattr(Accelerator, "is_fsdp2", True)
    for options in ("--encoder_layerdrop=0.5",), (f"--start_from={start}",):
        given = recipe(*options, "--report_to=nobody", output="second")
        with processes_of(given) as processes, pytest.raises(InputError, match="(?s)LayerDrop.*FSDP") as error:
            check(given, processes)
        assert "training.report_to: 'nobody' is unknown" in str(error.value)


def test_optimizer_step_is_three_calls_below_train(recipe, monkeypatch):
    paths, original, package = [], torch.optim.Adam.step, Path(run.__file__).parents[1]

    def step(self, *arguments, **options):
        paths.append([frame.name for frame in traceback.extract_stack() if package in Path(frame.filename).parents])
        return original(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    train(recipe("--max_steps=1"))
    assert paths == [["train", "fit", "run_steps", "optimizer_step"]]
