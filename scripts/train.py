"""Trains a model: accelerate launch scripts/train.py RECIPE.yaml [--key value …]."""

import sys

from hf_vaswani.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
