"""The small training run that most tests here vary."""

import random
from itertools import count

import pytest
from matplotlib.figure import Figure

from hf_vaswani.evaluation.token_text import save_figure
from hf_vaswani.training import loop, trainer
from hf_vaswani.training.optimization.step_loss import training_loss
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.reporting import teacher

RECIPE = """
tokenizer: {vocab_size: 60}
model:
  {d_model: 32, encoder_layers: 1, decoder_layers: 1, encoder_attention_heads: 2, decoder_attention_heads: 2,
   encoder_ffn_dim: 64, decoder_ffn_dim: 64, dropout: 0.1}
training:
  {max_steps: 12, max_tokens: 120, lr_scheduler_type: inverse_sqrt, learning_rate: 0.003, warmup_steps: 5,
   logging_steps: 1, eval_steps: 6, save_steps: 4, average_last: 2, cpu_threads: 1,
   mixed_precision: no}
generation: {num_beams: 2}
"""


@pytest.fixture
def recipe(tmp_path, write_lines):
    """Loads a recipe for a small corpus of reversed texts, with the options given."""
    generator = random.Random(0)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    options = []
    for split, size in (("train", 60), ("validation", 8), ("test", 8)):
        lines = [" ".join(generator.choices("abcdefgh", k=generator.randint(2, 6))) for _ in range(size)]
        reversed_lines = [line[::-1] for line in lines]
        options += [f"--{split}_source={write_lines(f'{split}.x', lines)}"]
        options += [f"--{split}_target={write_lines(f'{split}.y', reversed_lines)}"]

    def load(*more, output="out"):
        return load_recipe(path, [*options, f"--output_dir={tmp_path / output}", *more])

    load.command = [str(path), *options]
    return load


@pytest.fixture(autouse=True)
def blank_figures(request, monkeypatch):
    """Runs draw blank figures in place of curves and attention, which take longer to draw than a small run to train.

    No two have the same shade of gray, so that an old one can be told from a new one. Tests of the figures themselves
    are marked `draws_figures`.
    """
    shades = count()

    def blank(*arguments) -> Figure:
        return Figure((1, 1), facecolor=str(next(shades) % 256 / 255))

    if not request.node.get_closest_marker("draws_figures"):
        monkeypatch.setattr("hf_vaswani.evaluation.curves.draw_curves", lambda logs, path: save_figure(blank(), path))
        monkeypatch.setattr("hf_vaswani.evaluation.attention.attention_figure", blank)


@pytest.fixture(autouse=True)
def no_int8_export(monkeypatch):
    """Students are not exported in int8 to know their size, which takes longer than to train one.

    A run that a fixture of a module makes has its size.
    """
    monkeypatch.setattr(teacher, "int8_size", lambda *_: None)


@pytest.fixture(autouse=True)
def small_parts_of_streams(monkeypatch):
    """The texts of the tests would otherwise fit into one part of a stream."""
    monkeypatch.setattr("hf_vaswani.training.setup.training_batches.STREAM_PART", 25)


@pytest.fixture
def loss_of_pass(monkeypatch):
    """Changes the loss of each forward pass by its number, counted from 1, in the loop and in the Trainer."""

    def replace(change):
        number = 0

        def changed(*args):
            nonlocal number
            number += 1
            return change(number, training_loss(*args))

        for module in (loop, trainer):
            monkeypatch.setattr(module, "training_loss", changed)

    return replace
