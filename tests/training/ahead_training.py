"""Trains a recipe on CPUs with steps that end while the next one is computed, as on GPUs. A test runs it in two
processes."""

import sys

from hf_vaswani.training import loop, run
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.train import train

loop.may_run_async, run.FIRST_STEPS = lambda run: True, 0
train(load_recipe(sys.argv[1], sys.argv[2:]))
