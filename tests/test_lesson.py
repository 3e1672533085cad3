"""The lesson: its code runs, its claims hold, and its notebooks match their scripts and have clean outputs."""

import ast
import importlib.util
import json
import math
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from transformers.utils.logging import enable_progress_bar

ROOT = Path(__file__).parents[1]
LESSON = ROOT / "docs" / "lesson"
# Two names or more after a slash that begins a word.
ABSOLUTE_PATH = r"(?<![\w./:<])/[\w.-]+/\S"
LARGEST_NOTEBOOK = 1_500_000  # bytes


def module(path: Path):
    specification = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


build = module(LESSON / "build.py")
SCRIPTS = build.scripts()
of_each_notebook = pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])


def outputs(script: Path) -> list[dict]:
    cells = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]


def results(script: Path) -> str:
    """The text of all outputs, printed or returned by a cell."""
    returned = ("".join(output.get("data", {}).get("text/plain", "")) for output in outputs(script))
    return "\n".join([printed(script), *returned])


def printed(script: Path) -> str:
    return "".join("".join(output["text"]) for output in outputs(script) if output["output_type"] == "stream")


def run(script: Path, namespace: dict, shown: list) -> None:
    """Run a notebook's code as Jupyter would, and append the values that cells display to `shown`."""
    for kind, source in build.cells(script):
        if kind == "code":
            tree = ast.parse(source)
            last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, script.name, "exec"), namespace)
            if last is not None:
                shown.append(eval(compile(last, script.name, "eval"), namespace))


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A temporary working folder, training runs of two steps, and figures without windows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LESSON_STEPS", "2")
    with matplotlib.rc_context():
        plt.switch_backend("agg")
        yield
        plt.close("all")
    torch.set_printoptions(profile="default")
    enable_progress_bar()


@pytest.mark.slow
def test_all_code_of_the_lesson_runs(small, capsys):
    namespaces: list[dict] = []
    shown: list = []
    for script in SCRIPTS:
        namespaces.append({"__name__": "__main__"})
        run(script, namespaces[-1], shown)
    assert "False" not in capsys.readouterr().out.replace("whole              the same states: False", "")
    trees = [value for value in shown if hasattr(value, "_repr_svg_")]
    assert [tree.num_beams for tree in trees] == [2, 4]


@of_each_notebook
def test_notebook_matches_its_script(script):
    made = build.notebook(script)
    committed = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    for cell, expected in zip(committed["cells"], made["cells"], strict=True):
        assert (cell["cell_type"], "".join(cell["source"])) == (expected["cell_type"], "".join(expected["source"]))


@of_each_notebook
def test_notebook_has_all_outputs_without_errors_warnings_or_paths(script):
    path = script.with_suffix(".ipynb")
    text = path.read_text(encoding="utf-8")
    assert len(text) < LARGEST_NOTEBOOK
    notebook = json.loads(text)
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert {output["output_type"] for output in outputs(script)} <= {"stream", "display_data", "execute_result"}
    assert all(output.get("name") in (None, "stdout") for output in outputs(script))
    assert not re.search(r"Warning|Traceback|/home/|/root/|/tmp/|site-packages|it/s", text)
    sources = ("".join(cell["source"]) for cell in notebook["cells"])
    assert not re.search(ABSOLUTE_PATH, "\n".join([results(script), *sources]))
    assert not any("execution" in cell["metadata"] for cell in notebook["cells"])


def test_first_notebook_prints_the_papers_values():
    text = printed(SCRIPTS[0])
    encoding = [f(2 / 10000 ** (i / 4)) for i in (0, 2) for f in (math.sin, math.cos)]
    assert [round(value, 4) for value in encoding] == [0.9093, -0.4161, 0.02, 0.9998]
    assert "0.9093, -0.4161,  0.0200,  0.9998" in text
    first = math.exp(1 / math.sqrt(2)) / (1 + math.exp(1 / math.sqrt(2)))
    attended = [2 * first, first + 3 * (1 - first)]
    assert f"by the package tensor([{attended[0]:.4f}, {attended[1]:.4f}])" in text
    mask = re.search(r"tensor\((\[\[1, 0, 0, 0\].*?\]\])", text, re.DOTALL)
    assert ast.literal_eval(mask[1]) == [[int(column <= row) for column in range(4)] for row in range(4)]
    assert "False" not in text


def at_the_end(text: str) -> list[dict[str, float]]:
    return [ast.literal_eval(found) for found in re.findall(r"at the end: (\{.*?\})", text)]


def test_second_notebook_shows_what_breaks_without_each_part():
    text = printed(SCRIPTS[1])
    assert "the right token 0.9001, every other 0.0001, together 1.0000" in text
    scale, positions, mask, smoothing = at_the_end(text)
    assert scale["without_the_scale"] > scale["whole"] + 0.5
    assert positions["without_positions"] > positions["whole"] + 1
    assert mask["without_causal_mask"] < mask["whole"] - 0.5
    assert {"whole", "without_label_smoothing"} == set(smoothing)
    with_smoothing, without = (float(value) for value in re.findall(r"mean highest probability (\d\.\d\d)", text))
    assert with_smoothing < without
    perplexity = float(re.search(r"perplexity at the end: (\d+\.\d)", text)[1])
    assert perplexity < 3


def test_site_pages_show_text_code_outputs_and_figures():
    hooks = module(ROOT / "docs" / "hooks.py")
    for script in SCRIPTS:
        page, images = hooks.notebook_page(script.with_suffix(".ipynb"))
        assert page.startswith(f"# {script.name[0]}. ")
        for kind, source in build.cells(script):
            assert source.replace("<details>", '<details markdown="1">') in page, kind
        assert all(f"]({name})" in page for name in images)
        assert len(images) == sum("image/png" in o.get("data", {}) or "image/svg+xml" in o.get("data", {})
                                  for o in outputs(script))  # fmt: skip
        assert all(content.startswith((b"\x89PNG", b"<svg")) for content in images.values())


@pytest.mark.slow
def test_all_notebook_cells_run(tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    texts = []
    for script in SCRIPTS:
        made, _ = build.execute(build.notebook(script), tmp_path)
        found = [output for cell in made["cells"] for output in cell.get("outputs", [])]
        assert not [output for output in found if output["output_type"] == "error"]
        texts.append("".join("".join(o["text"]) for o in found if o.get("name") == "stdout"))
    scale, positions, mask, _ = at_the_end(texts[1])
    assert scale["without_the_scale"] > scale["whole"] + 0.5
    assert positions["without_positions"] > positions["whole"] + 1
    assert mask["without_causal_mask"] < mask["whole"] - 0.5
