"""Translates a folder of files on Ray: python scripts/translate_shards.py MODEL INPUT_FOLDER OUTPUT_FOLDER."""

import sys

from hf_vaswani.cli import main
from hf_vaswani.commands.translate_shards import make_parser

if __name__ == "__main__":
    sys.exit(main(parser=make_parser()))
