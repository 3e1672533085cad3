"""The precision that a run chooses if the recipe leaves it open."""

import json

import pytest
import torch
import yaml

from hf_vaswani.errors import InputError
from hf_vaswani.training.setup import precision
from hf_vaswani.training.setup.precision import SPEEDUPS_FILE, cached_number, precision_to_begin_with
from hf_vaswani.training.train import train

from ..helpers import losses, run_training, same_weights

AUTO = "--mixed_precision=auto"


@pytest.fixture(autouse=True)
def file(monkeypatch, tmp_path):
    """The file of measurements in an empty cache, with no precision set in the environment."""
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    return tmp_path / "cache" / SPEEDUPS_FILE


@pytest.fixture
def measured(monkeypatch):
    """Pretends that bf16 was measured to be that many times as fast as fp32; returns the list of measurements."""
    calls = []

    def pretend(speedup: float) -> list[float]:
        monkeypatch.setattr(precision, "measured_speedup", lambda *arguments: calls.append(speedup) or speedup)
        return calls

    return pretend


def launched(folder) -> str:
    return yaml.safe_load((folder / "training_recipe.yaml").read_text())["launched"]["mixed_precision"]


def test_auto_uses_bf16_if_it_is_faster_with_the_same_result_as_explicit_bf16(recipe, measured, capsys):
    measured(1.94)
    random_state = torch.get_rng_state()
    results = train(recipe(AUTO, output="auto"))
    line = "mixed precision bf16, measured to be 1.9 times as fast as fp32 here; set --mixed_precision to fix it"
    assert capsys.readouterr().out.count(line) == 1
    assert launched(results.folder) == "bf16" and results.precision == "bf16, mixed"
    assert "--output_dir FOLDER --mixed_precision bf16` with" in (results.folder / "README.md").read_text()
    torch.set_rng_state(random_state)
    explicit = train(recipe("--mixed_precision=bf16", output="asked")).folder
    assert losses(results.folder) == losses(explicit) and same_weights(results.folder, explicit)
    assert "mixed precision" not in capsys.readouterr().out
    assert "--output_dir FOLDER` with" in (explicit / "README.md").read_text()


def test_auto_silently_keeps_fp32_if_bf16_is_no_faster(recipe, measured, capsys):
    measured(1.14)
    results = train(recipe(AUTO, "--max_steps=2"))
    assert "mixed precision" not in capsys.readouterr().out
    assert launched(results.folder) == "no" and results.precision == "fp32"
    assert "--output_dir FOLDER --mixed_precision no` with" in (results.folder / "README.md").read_text()


@pytest.mark.slow
def test_resumed_run_keeps_its_precision_without_measuring_again(recipe, measured, file, capsys):
    measured(1.9)
    whole = train(recipe("--mixed_precision=bf16", output="whole")).folder
    train(recipe(AUTO, "--max_steps=5"))
    file.unlink()
    calls = measured(0.5)
    capsys.readouterr()
    folder = train(recipe(AUTO)).folder
    assert calls == [1.9] and "mixed precision" not in capsys.readouterr().out
    assert losses(folder) == losses(whole) and same_weights(folder, whole)
    # Overwriting starts a different run.
    assert launched(train(recipe(AUTO, "--overwrite", "--max_steps=2")).folder) == "no"


@pytest.mark.slow
def test_run_with_a_measured_precision_resumes_only_with_that_precision(recipe, measured):
    measured(1.9)
    train(recipe(AUTO, "--max_steps=3"))
    with pytest.raises(InputError, match="mixed precision was bf16 and is now no"):
        train(recipe("--mixed_precision=no"))
    assert train(recipe("--mixed_precision=bf16")).steps == 12


@pytest.mark.slow
def test_fp32_run_without_checkpoints_does_not_fix_the_precision(recipe, measured):
    measured(1.9)
    folder = train(recipe("--max_steps=1")).folder
    for path in (*folder.glob("*/update-*/*"), *folder.glob("model.safetensors")):
        path.unlink()
    for path in folder.glob("*/update-*"):
        path.rmdir()
    assert launched(train(recipe(AUTO, "--max_steps=1")).folder) == "bf16"


@pytest.mark.slow
def test_measurement_is_reused_for_runs_of_the_same_size(recipe, measured, file):
    measured(1.9)
    train(recipe(AUTO, "--max_steps=1", output="first"))
    [(key, value)] = json.loads(file.read_text()).items()
    assert value == 1.9 and all(part in key for part in (f"torch {torch.__version__}", "threads 1", "d_model 32"))
    calls = measured(0.5)
    assert launched(train(recipe(AUTO, "--max_steps=1", "--seed=2", output="second")).folder) == "bf16"
    assert launched(train(recipe(AUTO, "--max_steps=1", "--d_model=64", output="third")).folder) == "no"
    assert calls == [1.9, 0.5]
    assert sorted(json.loads(file.read_text()).values()) == [0.5, 1.9]


@pytest.mark.parametrize("content", ['{"a": 1.5', "[]", '{"a": "fast"}', '{"a": true}', "\0", ""])
def test_damaged_file_of_measurements_is_rewritten(tmp_path, content):
    file = tmp_path / "new" / SPEEDUPS_FILE
    file.parent.mkdir()
    file.write_text(content)
    assert cached_number(file, "a", lambda: 2.5) == 2.5
    assert json.loads(file.read_text()) == {"a": 2.5} and [*file.parent.iterdir()] == [file]


def test_measurement_that_cannot_be_stored_is_still_used(tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert cached_number(tmp_path / "cache" / SPEEDUPS_FILE, "a", lambda: 2.5) == 2.5


@pytest.mark.slow
def test_precision_set_for_the_launcher_is_used_but_not_its_default(recipe, measured, monkeypatch):
    calls = measured(1.9)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    assert launched(train(recipe(AUTO, "--max_steps=1", output="fp16")).folder) == "fp16"
    # The recipe has the last word.
    assert launched(train(recipe("--mixed_precision=no", "--max_steps=1", output="no")).folder) == "no"
    assert not calls
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert launched(train(recipe(AUTO, "--max_steps=1", output="auto")).folder) == "bf16"


def test_unsupported_precision_is_rejected_with_a_list_of_the_supported_ones(recipe, monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp8")
    with pytest.raises(InputError) as error:
        train(recipe(AUTO, "--train_source=absent.de"))
    assert (
        "mixed precision fp8 is not supported on this cpu: use auto, no, bf16, fp16" in str(error.value).splitlines()
    )
    assert "absent.de" in str(error.value) and not (tmp_path / "out").exists()
    assert train(recipe("--max_steps=1")).steps == 1


def test_gpu_trains_in_bf16_if_it_supports_it_natively(recipe, monkeypatch):
    monkeypatch.setattr("hf_vaswani.training.setup.precision.is_fp8_available", lambda: False)  # asks the GPU itself
    for is_native, expected in ((True, "bf16"), (False, "no")):
        monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation=True, native=is_native: native)
        assert precision_to_begin_with(recipe(AUTO), torch.device("cuda")) == expected
        assert precision_to_begin_with(recipe("--mixed_precision=fp16"), torch.device("cuda")) == "fp16"
    assert precision_to_begin_with(recipe(AUTO), torch.device("cpu")) == "no"


def test_real_measurement_finds_a_precision_and_changes_nothing_else(recipe):
    found = train(recipe(AUTO, "--max_steps=3", output="auto")).folder
    explicit = train(recipe(f"--mixed_precision={launched(found)}", "--max_steps=3", output="asked")).folder
    assert losses(found) == losses(explicit) and same_weights(found, explicit)


@pytest.mark.slow
def test_all_processes_use_the_same_precision(recipe, tmp_path, file):
    for name, speedup, expected in (("first", 9.0, None), ("second", 0.5, "bf16"), ("third", 9.0, "no")):
        printed = run_training(recipe, AUTO, f"--output_dir={tmp_path / name}", processes=2)
        assert expected in (None, launched(tmp_path / name))
        assert printed.count("mixed precision bf16") == (launched(tmp_path / name) == "bf16")
        explicit = tmp_path / f"explicit {name}"
        run_training(recipe, f"--mixed_precision={launched(tmp_path / name)}", f"--output_dir={explicit}", processes=2)
        assert losses(tmp_path / name) == losses(explicit) and same_weights(tmp_path / name, explicit)
        file.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text()), speedup)))
