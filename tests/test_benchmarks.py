"""Every benchmark in `scripts/benchmarks` runs, on tiny models and in one process; what they measure is not tested."""

import contextlib
import importlib
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hf_vaswani.cli import main as hf_vaswani_main

from .conftest import tiny_model

FOLDER = Path(__file__).parents[1] / "scripts" / "benchmarks"
# Far fewer sizes, tokens and steps than the benchmarks' own.
SMALL = {
    "measuring": {"SIDE": 32},
    "grown_models": {"SIZES": {"tiny": (3, 64, 96, 70)}},
    "training": {"SIZES": {"tiny": (1, 32, 2, 32)}, "VOCABULARY": 60, "TOKENS": 64},
    "fine_tuning": {"D_MODEL": 32},
    "families": {
        "SIZE": {"d_model": 16, "ffn_dim": 16, "layers": 1, "heads": 2, "vocab_size": 60},
        "LIMIT": 8,
        "SAMPLES": 4,
        "SHORTEST": 2,
        "LONGEST": 6,
        "BATCHES": (4,),
    },
    "preparation": {"VOCABULARY": 200},
    "scaling": {"SECONDS": 0.01},
    "terms": {"LEAST": 1, "LETTERS": (1, 1)},
    "step_memory": {"VOCABULARY": 60, "SENTENCES": 4, "LENGTH": 6},
}
TEXT = ["w1 w2 w3", "w4 w5", "w6 w7 w8 w9", "w10"]


@pytest.fixture
def benchmark(monkeypatch):
    """Runs a benchmark with arguments, and returns what it prints."""
    monkeypatch.syspath_prepend(FOLDER)
    modules = {path.stem: importlib.import_module(path.stem) for path in sorted(FOLDER.glob("*.py"))}
    for name, values in SMALL.items():
        for key, value in values.items():
            if isinstance(value, dict):
                for entry in list(getattr(modules[name], key)):
                    monkeypatch.delitem(getattr(modules[name], key), entry)
                for entry in value.items():
                    monkeypatch.setitem(getattr(modules[name], key), *entry)
            else:
                monkeypatch.setattr(modules[name], key, value)
    setting = modules["scaling"].Setting(length=4, tokens=16, vocab_size=50, d_model=32, layers=1)
    monkeypatch.setattr(modules["scaling"], "SETTINGS", {"tokens 2048": setting, "layers 1": setting})
    sizes = {key: 1 if "layers" in key or "heads" in key else 32 for key in modules["step_memory"].SIZE}
    monkeypatch.setattr(modules["step_memory"], "SIZE", {**sizes, "vocab_size": 60})

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        with contextlib.redirect_stdout(io.StringIO()) as output:
            modules[name].main()
        return output.getvalue()

    def in_this_process(file, *arguments):
        return {"memory": 1.0, **json.loads(run(Path(file).stem, *arguments).splitlines()[-1])}

    def train_in_this_process(command, **_):
        assert command[:3] == [sys.executable, "-m", "hf_vaswani"]
        status = hf_vaswani_main(command[3:])
        return SimpleNamespace(poll=lambda: status, returncode=status, stderr=io.StringIO())

    in_process = SimpleNamespace(**{**vars(subprocess), "Popen": train_in_this_process})
    monkeypatch.setattr(modules["training"], "subprocess", in_process)
    for module in modules.values():
        if hasattr(module, "in_own_process"):
            monkeypatch.setattr(module, "in_own_process", in_this_process)
    yield run
    for name in modules:
        del sys.modules[name]


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text"
    file.write_text("".join(f"{line}\n" for line in TEXT))
    return file


def contestants(output):
    """The contestants in a table that have a speed, with what they note."""
    rows = [line.strip("|").split("|") for line in output.splitlines() if line.startswith("| ")]
    return {row[0].strip(): row[-1].strip() for row in rows if row[0].strip() and float(row[1].replace(",", "")) > 0}


@pytest.mark.slow
def test_translation_of_a_model_with_spare_embeddings(benchmark, saved_model, text, tmp_path):
    tiny_model(vocab_size=56).save_pretrained(saved_model)
    options = ["--parts", "translation", "--rounds", 1, "--model", saved_model, "--test", text]
    output = benchmark("run", *options, "--output", tmp_path / "results.json")
    notes = contestants(output)
    assert list(notes) == [
        "marian", "pipeline", "pipeline torch", "pipeline torch bf16", "pipeline int8", "command", "ctranslate2",
        "ctranslate2 int8",
    ]  # fmt: skip
    assert {notes[name] for name in ("pipeline", "pipeline torch", "command")} == {"100.0% as MarianMT"}
    assert json.loads((tmp_path / "results.json").read_text())


@pytest.mark.slow
def test_engines(benchmark, saved_model, text):
    tiny_model(vocab_size=56).save_pretrained(saved_model)
    kinds = ["pipeline", "pipeline int8", "CTranslate2", "ONNX", "CTranslate2 directly", "ONNX, transformers' search"]
    kinds.insert(3, "CTranslate2 shortlist")
    options = ["--source", text, "--reference", text, "--rounds", 1, "--shortlist", text, text, "--kinds", *kinds]
    assert list(contestants(benchmark("engines", "--model", saved_model, *options))) == kinds


@pytest.mark.slow
def test_fine_tuning(benchmark, text):
    text.write_text("".join(f"{line} {number}\n" for number in range(150) for line in TEXT))
    options = ["--source", text, "--target", text, "--rounds", 1, "--seconds", 1, "--tokens", 64, "--vocabulary", 30]
    output = benchmark("run", "--parts", "fine_tuning", *options)
    assert list(contestants(output)) == ["Seq2SeqTrainer", "Seq2SeqTrainer, grouped by length", "hf_vaswani"]


@pytest.mark.slow
def test_terms(benchmark, saved_model, text):
    tiny_model(vocab_size=56).save_pretrained(saved_model)
    options = ["--source", text, "--reference", text, "--glossary_from", text, text, "--rounds", 1]
    kinds = ["without", "glossary", "random 2"]
    notes = contestants(benchmark("terms", "--model", saved_model, *options, "--kinds", *kinds))
    assert list(notes) == kinds
    assert notes["random 2"].startswith("100.0% of 7 terms")


@pytest.mark.parametrize("family", ["m2m_100", "t5"])
def test_families(benchmark, family):
    notes = contestants(benchmark("families", "--families", family, "--rounds", 1, "--sentences", 10))
    assert list(notes) == ["generate", "generate sorted", "pipeline"]


def test_training(benchmark, text):
    text.write_text("".join(f"{line} {number}\n" for number in range(150) for line in TEXT))
    names = ["MarianMT, grouped by length, fp32", "torch.nn.Transformer, fp32", "hf_vaswani, fp32"]
    options = ["--source", text, "--target", text, "--seconds", 0.5, "--rounds", 1, "--contestants", *names]
    assert list(contestants(benchmark("run", "--parts", "training", *options))) == names


@pytest.mark.parametrize("part, names", [
    ("preparation", ["datasets.map", "hf_vaswani"]), ("memory", ["MarianMT", "hf_vaswani"]),
    ("scaling", ["tokens 2048", "layers 1"]),
])  # fmt: skip
def test_other_parts(benchmark, part, names):
    output = benchmark("run", "--parts", part, "--rounds", 1, "--pairs", 200)
    assert list(contestants(output)) == names


@pytest.mark.parametrize("way", ["prepared", "streamed"])
def test_memory_of_a_large_corpus(benchmark, way):
    assert benchmark("memory", "--pairs", 300, "--way", way).startswith(f"{way}: ")
