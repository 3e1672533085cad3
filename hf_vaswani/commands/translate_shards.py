"""`scripts/translate_shards.py`: translates a folder of files on Ray."""

import argparse
import sys
from pathlib import Path

from ..errors import InputError, counted
from ..files import InputPath, OutputPath
from .options import MODEL, CommandParser, up_to, with_option_names
from .reports import LineReports, progress_bar
from .translate import (
    add_batch_options,
    add_length_options,
    add_search_options,
    option_errors,
    output_settings,
    translator_settings,
)

# Options of `hf-vaswani translate` that this command lacks, and more options that do not affect the translations.
NOT_HERE = {
    "prefix": None,
    "format": "text",
    "n_best": None,
    "scores": False,
    "confidence": False,
    "alignments": False,
}
FURTHER = {"folder", "num_actors", "address", "needs_torch", *NOT_HERE}

DESCRIPTION = """\
Translate a folder of files on Ray, on one machine or many, into files of the same names. Each line of a .txt
file (also .gz and .zst) is translated, with the same output as hf-vaswani translate, byte for byte; .jsonl (also .gz
and .zst) and .parquet files get another column.

Only this process reads and writes; each actor needs the package and the model. Actors that die are replaced. If this
process is killed, run the same command again to continue. A file that cannot be read is named at the end, with exit
status 2, and the others are translated."""


def make_parser() -> CommandParser:
    """The parser of the script."""
    parser = CommandParser(
        prog="translate_shards.py",
        usage="python scripts/translate_shards.py MODEL INPUT_FOLDER OUTPUT_FOLDER [options]",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    parser.add_argument("folder", type=InputPath, metavar="INPUT_FOLDER", help="folder of files to translate")
    parser.add_argument("output", type=OutputPath, metavar="OUTPUT_FOLDER", help="folder to write, new or unfinished")
    ray = parser.add_argument_group("Ray")
    add_ray_options(ray)
    columns = parser.add_argument_group("columns of .jsonl and .parquet")
    columns.add_argument("--column", default="text", metavar="NAME", help="the texts (default: text)")
    columns.add_argument(
        "--output_column", default="translation", metavar="NAME", help="their translations (default: translation)"
    )
    add_search_options(parser)
    add_length_options(parser.add_argument_group("lines"))
    add_batch_options(parser.add_argument_group("speed of each actor"))
    # An actor has one core.
    parser.set_defaults(run=run, saves_memory="Lower --batch_size.", needs_torch=True, num_workers=1, **NOT_HERE)
    return parser


def add_ray_options(parser: argparse._ActionsContainer) -> None:
    """Add `--num_actors` and `--address` to a parser or a group of options."""
    parser.add_argument(
        "--num_actors",
        type=up_to(100_000),
        metavar="N",
        help="number of actors (default: one per GPU, or else per core)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="address of the Ray cluster; local: a new one on this machine (default: RAY_ADDRESS, or else the cluster "
        "of this machine, or a new one)",
    )


def run(options: argparse.Namespace) -> None:
    from ..files import collect_errors
    from ..ledger import exclusive
    from ..runtime.imports import import_extra
    from ..runtime.ray_actors import RayActors, ray_session
    from ..translator.shard_files import Columns
    from ..translator.shards import (
        OpenWorker,
        begin_folder,
        find_shards,
        folder_errors,
        translate_shards,
    )

    errors = option_errors(options) + folder_errors(options.folder, options.output)
    collect_errors(errors, lambda: import_extra("ray"))
    output, columns = Path(options.output), Columns(options.column, options.output_column)
    if columns.source == columns.output:
        errors.append(f"--output_column {columns.output} is the column of the texts. Choose another name.")
    found = None if errors else collect_errors(errors, lambda: find_shards(Path(options.folder), output, columns))
    if errors:
        raise InputError.of(errors)
    shards, others = found
    for name in others:
        print(
            f"warning: {Path(options.folder) / name} is not translated: it is not a .txt, .jsonl, or .parquet file.",
            file=sys.stderr,
        )
    with exclusive(output):
        for shard in shards:
            if shard.is_finished:
                shard.remove_unfinished()
        unfinished = [shard for shard in shards if not shard.is_finished]
        if not unfinished:
            print(f"{output} is finished: it has all {counted(len(shards), 'shard')}. Nothing to do.", file=sys.stderr)
            return
        with ray_session(options.address):
            actors = RayActors(OpenWorker(translator_settings(options)), options.num_actors)
            try:
                models = _models(options, actors)
                settings = {"model": models, **output_settings(options, FURTHER)}
                begin_folder(output, settings)
                reports = LineReports()
                with progress_bar() as bar:
                    translate_shards(unfinished, actors.map, settings, reports.of, bar.update, reports.of_translations)
            finally:
                actors.close()
    reports.summarize()
    if failed := [shard for shard in unfinished if shard.error]:
        done = f"{counted(len(shards) - len(failed), 'shard')} of {len(shards)} finished in {output}."
        raise InputError.of([*(line for shard in failed for line in _named(shard)), done])


def _named(shard) -> list[str]:
    """The errors of a shard, with its path in front of those that do not mention it."""
    return [line if str(shard.path) in line else f"{shard.path}: {line}" for line in shard.error.splitlines()]


def _models(options: argparse.Namespace, actors) -> str:
    """The fingerprint of the actors' models, which must be the same for all."""
    try:
        models = actors.each((None,))
    except InputError as error:
        raise InputError("\n".join(map(with_option_names, str(error).splitlines()))) from None
    if len(set(models)) > 1:
        raise InputError(f"{options.model} is not the same model on all machines. Copy it to all of them again.")
    return models[0]
