"""`hf-vaswani sweep`: trains every combination of values of recipe keys with several seeds, and compares them."""

import argparse

from ..files import InputPath
from .options import OUTPUT_FILE, KeysParser, up_to

MISSING = (
    "the recipe is missing: it comes first, as in: hf-vaswani sweep quickstart --grid learning_rate=0.001,0.002 "
    "--seeds 1,2,3 --output_dir outputs/rates\n"
    "give a recipe or a sweep's file; hf-vaswani recipes lists the recipes of the package"
)


def add_parser(commands: argparse._SubParsersAction) -> None:
    sweep = commands.add_parser(
        "sweep",
        parser=KeysParser,
        missing=lambda _: MISSING,
        help="train all combinations of some values with several seeds, and compare them",
        usage="hf-vaswani sweep RECIPE (--grid key=value,value | --search key=low..high) ... [--trials N] "
        "[--seeds 1,2,3] --output_dir FOLDER [--jobs N] [--key value ...]",
        description="Train a recipe with every combination of some values of its keys, each with several seeds, in "
        "parallel; then write a table with spreads and significance, and the learning curves. The same command "
        "resumes a sweep that was stopped. Instead of a recipe, a file can describe the sweep. With --search, Optuna "
        "proposes values based on the validation losses so far.",
    )
    sweep.add_argument(
        "recipe", type=InputPath, metavar="RECIPE", help="a recipe, as for hf-vaswani train, or a sweep's YAML file"
    )
    sweep.add_argument(
        "options", nargs=argparse.REMAINDER, metavar="--key value", help="any other key of the recipe, for all runs"
    )
    sweep.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="KEY=VALUE,...",
        help="a key of the recipe and its values; lists in brackets; may be given several times",
    )
    sweep.add_argument(
        "--search",
        action="append",
        default=[],
        metavar="KEY=LOW..HIGH",
        help="a key of the recipe, and the range or comma-separated values to search; may be given several times",
    )
    sweep.add_argument(
        "--trials", type=up_to(10**6), metavar="N", help="combinations that a search tries (default: 20)"
    )
    sweep.add_argument("--seeds", metavar="N,...", help="random seeds of each combination (default: 1)")
    sweep.add_argument("--output_dir", **{**OUTPUT_FILE, "metavar": "FOLDER"}, help="folder of the sweep")
    sweep.add_argument(
        "--jobs",
        type=up_to(4096),
        metavar="N",
        help="runs in parallel (default: one per GPU; on a CPU, the cores divided by cpu_threads)",
    )
    sweep.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..errors import TrainingError, counted
    from ..sweep.request import read_request
    from ..sweep.sweep import PAGE_FILE, RESULT_FILE, check_sweep, run_sweep
    from ..sweep.table import best_line, result_table

    errors: list[str] = []
    sweep = run_sweep(check_sweep(read_request(options, errors), errors), options.jobs)
    print("\n\n".join(filter(None, (result_table(sweep), best_line(sweep)))) + "\n")
    print("\n".join(str(sweep.folder / name) for name in (PAGE_FILE, RESULT_FILE, sweep.figure) if name))
    if failed := sweep.failed:
        number = counted(sum(len(row.runs) for row in sweep.rows), "run")
        raise TrainingError(
            f"{len(failed)} of {number} failed: {', '.join(run.folder.name for run in failed)}. Their logs are in "
            f"{sweep.folder}; run the same command again to retry them."
        )
