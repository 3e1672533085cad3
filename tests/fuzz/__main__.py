"""Runs all inputs whose name contains NAME: `python -m tests.fuzz NAME [FOLDER]`. With a folder, runs only the first
and leaves its files there."""

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
