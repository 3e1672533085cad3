"""Trains with transformers' Trainer: accelerate launch scripts/train_trainer.py RECIPE.yaml [--key value …]."""

import sys

from hf_vaswani.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", "--trainer", *sys.argv[1:]]))
