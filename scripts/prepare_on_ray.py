"""Prepares the training text of a recipe on Ray: python scripts/prepare_on_ray.py RECIPE [--key value …]."""

import sys

from hf_vaswani.cli import main
from hf_vaswani.commands.prepare_on_ray import make_parser

if __name__ == "__main__":
    sys.exit(main(parser=make_parser()))
