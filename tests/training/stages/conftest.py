"""The small recipe of stages that most tests here vary: all kinds of stages, listed out of order."""

import os
import random
import signal
from pathlib import Path

import pytest
import yaml

from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.translation.lines import LineTranslator

RECIPE = """
data:
  source_language: de
  target_language: en
  text: {own: 2, forward: 1, backward: 1}
tokenizer: {vocab_size: 60}
model:
  {d_model: 32, encoder_layers: 1, decoder_layers: 1, encoder_attention_heads: 2, decoder_attention_heads: 2,
   encoder_ffn_dim: 64, decoder_ffn_dim: 64, dropout: 0.1}
training:
  {start_from: both, max_steps: 6, max_tokens: 120, lr_scheduler_type: linear, learning_rate: 0.003, warmup_steps: 2,
   logging_steps: 1, eval_steps: 6, eval_sentences: 0, save_steps: 2, average_last: 2, cpu_threads: 1,
   mixed_precision: no}
generation: {num_beams: 2}
stages:
  forward:
    translate: {model: both, n_best: 2, max_new_tokens: 12}
  backward:
    translate: {model: [both, mean], side: target, max_new_tokens: 12, sample: 1}
  mean:
    average: {models: [both], last: 2}
  both:
    train:
      data: {text: [own, reversed]}
      training: {max_steps: 8, lr_scheduler_type: inverse_sqrt, warmup_steps: 5}
"""


def staged_in(folder: Path):
    """Write a recipe of stages and a small corpus of reversed lines to a folder; returns a function that loads it.

    The function takes options, the name of the output folder, and changes to the stages: name → content, or `None` to
    leave a stage out. Its attribute `command` is the command line.
    """
    generator = random.Random(0)
    path = folder / "recipe.yaml"
    content = yaml.safe_load(RECIPE)
    options = []
    for split, size in (("train", 60), ("validation", 8), ("test", 8)):
        lines = [" ".join(generator.choices("abcdefgh", k=generator.randint(2, 6))) for _ in range(size)]
        for side, texts in (("source", lines), ("target", [line[::-1] for line in lines])):
            file = folder / f"{split}.{side}"
            file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            options.append(f"--{split}_{side}={file}")

    def load(*more, output="out", **changes):
        stages = {name: stage for name, stage in {**content["stages"], **changes}.items() if stage is not None}
        path.write_text(yaml.safe_dump({**content, "stages": stages}, sort_keys=False), encoding="utf-8")
        return load_recipe(path, [*options, f"--output_dir={folder / output}", *more])

    load()  # writes the file
    load.command = [str(path), *options]
    return load


def stop_in_second_window(monkeypatch) -> list[int]:
    """Have a SIGTERM arrive as the second window is translated; returns a list to which all sizes are added."""
    call, sizes = LineTranslator.__call__, []

    def stopping(self, given):
        sizes.append(len(given))
        if len(sizes) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return call(self, given)

    monkeypatch.setattr(LineTranslator, "__call__", stopping)
    return sizes


@pytest.fixture
def staged(tmp_path):
    """[`staged_in`] the test's own folder."""
    return staged_in(tmp_path)
