"""Machines with little memory, and terminals that cannot show every character."""

import random
from collections.abc import Iterator

from .commands import GOOD
from .runner import Input

ENCODINGS = ("ascii", "cp1252", "latin-1", "utf-16")
# Bytes beyond what the worker uses already, which loaded the libraries.
MEMORIES = (4 << 20, 8 << 20, 16 << 20, 64 << 20)
# Without those that start threads of Rust or C++, which abort the process if they cannot.
SPARING = ("translate", "score", "evaluate", "attention", "average", "card", "curves", "beam-tree", "export", "push")
HELP = ("train", "translate", "verify", "recipes", "export")
UNUSUAL = (("write", "text.txt", "a – b → c\nü 你好\n🙂\n"), ("write", "refs.txt", "ä\nб\nα\n"))


def inputs(choose: random.Random) -> Iterator[Input]:
    """All inputs of this surface."""
    for encoding in ENCODINGS:
        for command, argv in GOOD.items():
            if command not in ("push", "pull"):
                name = f"{command} in {encoding}"
                yield Input(name, (command, *argv), steps=UNUSUAL, encoding=encoding)
        for command in HELP:
            yield Input(f"{command} --help in {encoding}", (command, "--help"), encoding=encoding, refused=False)
    for command in SPARING:
        for memory in MEMORIES:
            single = ("--num_workers", "1") if command in ("translate", "evaluate") else ()
            name = f"{command} with {memory >> 20} MiB"
            yield Input(name, (command, *GOOD[command], *single), memory=memory)
