"""Sweeps whose runs are not trained but copied from results that a test has written."""

import json
import sys
from pathlib import Path

import pytest
import sacrebleu

from hf_vaswani.training.sweep import processes
from hf_vaswani.training.sweep.plan import SweepPlan, make_plan
from hf_vaswani.training.sweep.request import SweepRequest

REFERENCES = [f"the {word} stands on hill {i} ." for i, word in enumerate(["house", "mill", "oak"] * 4)]
# Stands in for `hf-vaswani train`, without its slow imports.
SCRIPT = """
import os, shutil, sys, time
options = dict(option[2:].split("=", 1) for option in sys.argv[2:])
folder = options["training.output_dir"]
name, results = os.path.basename(folder), {results!r}
with open(results + "/started", "a") as file:
    file.write(f"{{name}} {{options.get('training.cpu_threads')}} {{os.environ.get('CUDA_VISIBLE_DEVICES')}}\\n")
os.makedirs(folder, exist_ok=True)
print("step 1: loss 3.0")
if os.path.exists(results + "/wait"):
    time.sleep(60)
if not os.path.isdir(results + "/" + name):
    print("error: this run fails\\nand says more")
    sys.exit(3)
shutil.copytree(results + "/" + name, folder, dirs_exist_ok=True)
"""


class FakeRuns:
    """The prepared results of the runs of a sweep."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        (folder / "script.py").write_text(SCRIPT.format(results=str(folder)))

    def command(self, recipe: str, options: list[str]) -> list[str]:
        return [sys.executable, str(self.folder / "script.py"), recipe, *options]

    def write(self, name: str, loss: float, texts: list[str], **values) -> float:
        """Write the results of a run; returns its BLEU."""
        bleu = sacrebleu.corpus_bleu(texts, [REFERENCES], force=True).score
        chrf = sacrebleu.corpus_chrf(texts, [REFERENCES]).score
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "test_translations.txt").write_text("".join(f"{text}\n" for text in texts))
        log = [{"update": step, "loss": loss + 1 / step, "validation_loss": loss + 2 / step} for step in (1, 2, 3)]
        (folder / "log.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in log))
        architecture = {
            **dict.fromkeys(("encoder_layers", "decoder_layers", "d_model", "encoder_attention_heads"), 1),
            **dict.fromkeys(("decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim"), 1),
            "norm_position": "post", "position_type": "sinusoidal", "max_position_embeddings": 9,
            "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True, "label_smoothing": 0.1,
        }  # fmt: skip
        results = {
            "steps": 3, "minutes": 0.5, "seconds": 30.0, "parameters": 1234, "validation_loss": loss,
            "validation_perplexity": 2.0, "validation_accuracy": 0.5, "averaged": [3], "filters": {},
            "pair_errors": [],
            "tests": {"test": {"sentences": len(texts), "bleu": bleu, "chrf2": chrf}}, "sources": {}, "pairs": {},
            "tokenizer": {"type": "BPE", "joint": True, "source_tokens": 9, "target_tokens": 9},
            "architecture": architecture, "seen": None, "epochs": None, "flops": None, "energy": {}, "machines": [],
            "precision": "fp32", "versions": {}, **values,
        }  # fmt: skip
        (folder / "results.json").write_text(json.dumps(results))
        return bleu

    def started(self) -> list[str]:
        """The runs started since the last call, with their threads and GPUs."""
        path = self.folder / "started"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(lines)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    fake = FakeRuns(tmp_path / "results")
    monkeypatch.setattr(processes, "train_command", fake.command)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return fake


@pytest.fixture
def plan_of(tmp_path, write_lines):
    """Plans a sweep of a recipe whose test set has these references."""
    text = write_lines("text.x", [str(i) for i in range(len(REFERENCES))])
    test = write_lines("test.x", [f"test {i}" for i in range(len(REFERENCES))])
    references = write_lines("text.y", REFERENCES)
    path = tmp_path / "recipe.yaml"
    splits = "".join(
        f"  {split}_source: {text}\n  {split}_target: {references}\n" for split in ("train", "validation")
    )
    path.write_text(f"data:\n{splits}  test_source: {test}\n  test_target: {references}\n")

    def plan(output: str = "out", reads_inputs: bool = False, **parts) -> SweepPlan:
        request = SweepRequest(str(path), str(tmp_path / output), **parts)
        return make_plan(request, [], reads_inputs)

    return plan
