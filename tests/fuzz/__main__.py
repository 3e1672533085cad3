"""Runs inputs by a part of their name: `python -m tests.fuzz NAME [FOLDER]`. Without a folder, all of that name; with
one, the first, whose files are left there."""

import sys
import tempfile
from pathlib import Path

from . import runner
from .test_fuzz import INPUTS

if __name__ == "__main__":
    found = [case for cases in INPUTS.values() for case in cases if sys.argv[1] in case.name]
    with tempfile.TemporaryDirectory() as folder:
        runner.prepare(Path(folder))
        runner.make_world(Path(folder))
        place = Path(sys.argv[2]).absolute() if sys.argv[2:] else None
        for case in found[: 1 if place else None]:
            print(runner.run(case, Path(folder), place))
