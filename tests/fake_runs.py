"""Runs that are not trained: a test writes their results, and a script copies these in place of `hf-vaswani train`."""

import json
from pathlib import Path

import sacrebleu

REFERENCES = [f"the {word} stands on hill {i} ." for i, word in enumerate(["house", "mill", "oak"] * 4)]
POOR = [text.replace("stands on", "lies at") if i % 2 else text for i, text in enumerate(REFERENCES)]
GOOD = [text.replace("hill", "rock") if i % 4 == 1 else text for i, text in enumerate(REFERENCES)]
FAIR = [text.replace("hill", "rock") if i % 2 == 1 else text for i, text in enumerate(REFERENCES)]
# The translations of the runs of a grid with two values and two seeds.
GRID_TEXTS = {
    "dropout-0.0_seed_1": POOR, "dropout-0.0_seed_2": FAIR,
    "dropout-0.1_seed_1": GOOD, "dropout-0.1_seed_2": REFERENCES,
}  # fmt: skip
# Without the slow imports of the command. A run without results of its own fails.
SCRIPT = """
import os, shutil, sys, time
options = dict(option[2:].split("=", 1) for option in sys.argv[2:] if "=" in option)
folder = options["training.output_dir"]
name, results = os.path.basename(folder), {results!r}
with open(results + "/started", "a") as file:
    file.write(f"{{name}} {{os.environ.get('OMP_NUM_THREADS')}}\\n")
os.makedirs(folder, exist_ok=True)
print("step 1: loss 3.0")
if os.path.exists(results + "/wait"):
    time.sleep(120)
if os.path.exists(results + "/" + name):
    shutil.copytree(results + "/" + name, folder, dirs_exist_ok=True)
elif os.path.exists(results + "/template"):
    shutil.copytree(results + "/template", folder, dirs_exist_ok=True)
    text = open(folder + "/results.json").read()
    loss = options["learning_rate"] if "learning_rate" in options else "9.0"
    open(folder + "/results.json", "w").write(text.replace('"validation_loss": 3.0', '"validation_loss": ' + loss))
else:
    print("error: this run fails\\nand says more")
    sys.exit(3)
"""


class FakeRuns:
    """The prepared results of runs, and the script that copies them."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        self.script = folder / "script.py"
        self.script.write_text(SCRIPT.format(results=str(folder)))

    def write(self, name: str, loss: float, texts: list[str], **values) -> float:
        """Write the results of a run, or the template of others; returns its BLEU."""
        bleu = sacrebleu.corpus_bleu(texts, [REFERENCES], force=True).score
        chrf = sacrebleu.corpus_chrf(texts, [REFERENCES]).score
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "test_translations.txt").write_text("".join(f"{text}\n" for text in texts))
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": values.pop("vocab", {"a": 1})}}))
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
        """The runs started since the last call, with their threads."""
        path = self.folder / "started"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(lines)
