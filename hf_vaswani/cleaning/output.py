"""Writes what a cleaning run has found: the clean text, what was left out or changed, scores, and the report."""

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import zstandard

from ..data.sources.tables import Languages
from ..data.sources.text_source import TextSource, iterate_pairs
from ..errors import InputError
from ..files import atomic_write, left_parts, writing
from ..ledger import exclusive
from ..runtime.parts import MapParts
from .clean import WORK, CleanSettings, Judged, is_work, judge, spellings_of
from .cleaner import Cleaner
from .compare import LineSample
from .provenance import REPORT, digests, public_names
from .report import CleanReport
from .share_choice import ShareChoice

REMOVED, SCORES = "removed.tsv.zst", "scores.tsv"
NOT_UTF_8 = "backslashreplace"  # bytes in names of files
SHARES = "shares"  # in the folder of measurements
# Of pairs that were judged without a least score, the default, and a folder for what was measured.
ChooseShare = Callable[[Iterator[Judged], float, Path], ShareChoice]
COLUMNS = (
    "reason",
    "detail",
    "repairs",
    "score",
    "source_name",
    "line",
    "source",
    "target",
    "raw_source",
    "raw_target",
)


def check_output(output: Path) -> None:
    """Refuse a folder with anything but the results of an earlier run.

    Raises:
        InputError: there is something else in it.
    """
    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not is_work(output / WORK))):
        raise InputError(f"{output} exists and has no clean text. Choose another folder; nothing is overwritten.")


def write_clean_text(
    sources: Sequence[TextSource],
    languages: Languages,
    output: Path,
    settings: CleanSettings,
    cleaner: Cleaner | None = None,
    tests: Sequence[TextSource] = (),
    likes: tuple[Sequence[str], Sequence[str]] = ((), ()),
    run: MapParts | None = None,
    choose_share: ChooseShare | None = None,
) -> tuple[CleanReport, Cleaner]:
    """Clean sources into a folder; results of an earlier run there are replaced once these are complete.

    Args:
        cleaner, tests, likes, run: as in [`judge`].
        choose_share: chooses the least score of the pairs that are kept.

    Returns:
        The report, and what was learned.

    Raises:
        InputError: a source cannot be read, or the folder not be written.
    """
    check_output(output)
    with exclusive(output), writing(output):
        for part in left_parts(output):
            part.unlink()
        judge_by = partial(
            judge, sources, languages, output / WORK, cleaner=cleaner, tests=tests, likes=likes, run=run
        )
        choice = None
        if choose_share:
            learned, pairs = judge_by(replace(settings, min_score=0.0))
            choice = choose_share(pairs, settings.limits(learned.limits).score, output / WORK / SHARES)
            settings = replace(settings, min_score=choice.limit)
        cleaner, pairs = judge_by(settings)
        spellings, _ = spellings_of(sources, languages, output / WORK)
        report = CleanReport(
            settings.limits(cleaner.limits), cleaner.score is not None, cleaner.languages.languages, spellings,
            _test_sample(tests, languages), _test_files(tests), public_names(sources),
            share=choice,
        )  # fmt: skip
        sides = [output / f"clean.{language}" for language in languages]
        with ExitStack() as stack:
            paths = [stack.enter_context(atomic_write(path)) for path in (*sides, output / SCORES, output / REMOVED)]
            source, target, scores = (
                stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths[:3]
            )
            packed = stack.enter_context(zstandard.ZstdCompressor().stream_writer(paths[3].open("wb")))
            removed = stack.enter_context(io.TextIOWrapper(packed, "utf-8", NOT_UTF_8, newline="\n"))
            print(*COLUMNS, sep="\t", file=removed)
            print("kept", "score", "reason", "detail", sep="\t", file=scores)
            for judged in pairs:
                report.add(judged)
                score = "" if math.isnan(judged.score) else f"{judged.score:.4f}"
                print(int(not judged.reason), score, judged.reason, judged.detail, sep="\t", file=scores)
                if judged.reason or judged.repairs:
                    row = (
                        judged.reason, judged.detail, " ".join(judged.repairs), score, judged.source_name,
                        str(judged.line), *judged.pair, *judged.raw,
                    )  # fmt: skip
                    print(*map(_cell, row), sep="\t", file=removed)
                if not judged.reason:
                    for file, text in zip((source, target), judged.pair):
                        print(_line(text), file=file)
        report.files = digests(sides)
        for name, content in (
            ("report.html", report.as_html()), ("report.md", report.as_markdown()), (REPORT, report.as_json()),
        ):  # fmt: skip
            with atomic_write(output / name) as path:
                path.write_text(content, "utf-8", NOT_UTF_8)
    return report, cleaner


def _test_sample(tests: Sequence[TextSource], languages: Languages) -> tuple[list[str], list[str]]:
    """Some lines of both sides of the test sets."""
    samples = LineSample(), LineSample()
    for test in tests:
        for pair in iterate_pairs(test, languages):
            for sample, text in zip(samples, pair):
                sample.add(text)
    return samples[0].lines, samples[1].lines


def _test_files(tests: Sequence[TextSource]) -> tuple[str | None, str | None]:
    files = [(test.source[0], test.target[0]) for test in tests if test.source and test.target]
    return files[0] if files else (None, None)


def _line(text: str) -> str:
    return text.replace("\n", " ")


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
