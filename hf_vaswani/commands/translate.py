"""`hf-vaswani translate`: text in, translations out, line by line."""

import argparse
import os
import sys
from pathlib import Path

from ..errors import InputError
from .options import add_search_options, search


def add_parser(commands: argparse._SubParsersAction) -> None:
    translate = commands.add_parser("translate", help="translate text, line by line")
    translate.add_argument("model", help="folder or Hub id")
    translate.add_argument("--input", help="file to translate; default: standard input")
    translate.add_argument("--output", help="file to write; default: standard output")
    add_search_options(translate)
    translate.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..data.parallel_text import read_lines, split_lines
    from ..translation.load import load
    from ..translation.translate import translate

    _check_writable(options.output)
    texts = read_lines(options.input) if options.input else split_lines(sys.stdin.buffer.read(), "standard input")
    model, tokenizer = load(options.model)
    translations = translate(model, tokenizer, texts, options.batch_size, show_progress=True, **search(options))
    content = "".join(f"{text}\n" for text in translations)
    Path(options.output).write_text(content, encoding="utf-8") if options.output else sys.stdout.write(content)


def _check_writable(path: str | None) -> None:
    if path is None:
        return
    file = Path(path)
    if not file.resolve().parent.is_dir():
        raise InputError(f"{path} cannot be written: its folder does not exist. Make it first.")
    if file.is_dir() or not os.access(file if file.exists() else file.resolve().parent, os.W_OK):
        raise InputError(f"{path} cannot be written. Name another file.")
