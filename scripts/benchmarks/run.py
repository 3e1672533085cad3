"""Runs all benchmarks or some: prints a table for each, and writes all of them as JSON with the machine they ran on.

    python scripts/benchmarks/run.py --source train.de --target train.en --model outputs/my_model --test test.de \\
        --output results.json

Training and translation are compared with what one would use instead; contestants run in turn, each in its own
process. Use an idle machine: other processes change even the ratios.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import fine_tuning
import preparation
import scaling
import step_memory
import training
import translation
from grown_models import SIZES
from measuring import Table, machine, write

PARTS = ("training", "fine_tuning", "translation", "preparation", "memory", "scaling")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES, help="of training and translation")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--source", help="text to train with, a sentence a line")
    parser.add_argument("--target", help="its translations")
    parser.add_argument("--seconds", type=float, default=30, help="of each training")
    parser.add_argument("--tokens", type=int, default=training.TOKENS, help="target tokens of a training step")
    parser.add_argument("--vocabulary", type=int, default=training.VOCABULARY, help="of the model to train")
    parser.add_argument(
        "--contestants", nargs="+", choices=(*training.CONTESTANTS, *training.COMPILED), help="the first is the base"
    )
    parser.add_argument("--model", help="folder of a trained post-norm model for translation")
    parser.add_argument("--test", help="text to translate")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--num_beams", type=int, default=4)
    parser.add_argument("--engines", nargs="+", choices=translation.ENGINES, help="the first is the base")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="to prepare, and half as many")
    parser.add_argument("--output", type=Path, help="JSON file of all results")
    options = parser.parse_args()
    text = ("source", "target")
    needed = {"training": text, "fine_tuning": text, "translation": ("model", "test")}
    missing = [f"--{name}" for part, names in needed.items() if part in options.parts for name in names
               if getattr(options, name) is None]  # fmt: skip
    if missing:
        parser.error(f"{', '.join(dict.fromkeys(missing))} missing: name the files, or choose other --parts")
    start, made = time.monotonic(), []
    for part in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            for table in tables_of(part, Path(folder), options):
                made.append(table)
                print(f"\n{table.markdown()}", flush=True)
            if part == "preparation":
                print(preparation.growth(*made[-2:]))
            if options.output:
                write(made, options.output)
    print(f"{machine()}\n{(time.monotonic() - start) / 60:.0f} minutes", file=sys.stderr)


def tables_of(part: str, folder: Path, options: argparse.Namespace) -> list[Table]:
    if part == "training":
        return training.tables(folder, options)
    if part == "fine_tuning":
        return fine_tuning.tables(folder, options)
    if part == "translation":
        return translation.tables(folder, options)
    if part == "preparation":
        return preparation.tables(folder, options)
    return step_memory.tables(options) if part == "memory" else scaling.tables(options)


if __name__ == "__main__":
    main()
