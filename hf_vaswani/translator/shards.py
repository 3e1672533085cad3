"""Translates a folder of files into another folder, window by window, on any workers that keep the windows in order.

One process, the driver, reads and writes all shards; workers get windows of text and return lines. The windows are
those of `hf-vaswani translate`: they depend only on the lines, so the output does not depend on which worker
translates which window, or how often a worker dies. Until a shard is finished, its translations so far and their
progress are stored beside its output (`resumable_output`): if the driver is killed, only the windows in flight are
translated again.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.resumable_output import NothingToResume, NotResumable, ResumableOutput, progress_file
from ..data.sources.text_files import Report
from ..errors import InputError
from ..files import atomic_write, path_error, read_json, writing
from ..ledger import differences
from .lines import Line, LineTranslator, LineWriter, TranslatedWindow, translate_window, windows, write_window
from .shard_files import Columns, ShardFormat, shard_format
from .translator_settings import TranslatorSettings

SETTINGS_FILE = ".translation.json"


@dataclass
class Shard:
    """A file of the input folder, and its translation.

    Attributes:
        path: file to read.
        output: file to write.
        error: why the shard could not be translated.
    """

    path: Path
    output: Path
    format: ShardFormat
    columns: Columns
    error: str | None = None
    _written: ResumableOutput | None = field(default=None, repr=False)

    @property
    def is_finished(self) -> bool:
        return self.output.exists()

    @property
    def translations(self) -> Path:
        """The file that collects its translations until the shard is finished."""
        return self.output.with_name(f".{self.output.name}.translations")

    def windows(self, settings: dict[str, Any], report: Report) -> Iterator[list[Line]]:
        """The windows that have yet to be translated.

        Raises:
            InputError: the shard cannot be read; its translations so far are kept.
        """
        try:
            lines = self._begin(settings, report, resume=True)
        except (NothingToResume, NotResumable):
            # The translations so far are of another text, for example because a damaged shard was replaced.
            self.remove_unfinished()
            lines = self._begin(settings, report, resume=False)
        yield from windows(lines, self._written.progress.windows)

    def _begin(self, settings: dict[str, Any], report: Report, resume: bool) -> Iterator[Line]:
        """Open the translations; returns the lines that have yet to be translated."""
        lines = (Line(text or "") for text in self.format.texts(self.path, self.columns, report))
        self._written = ResumableOutput(self.translations, resume=resume)
        self._written.begin(settings, lines)
        return lines

    def write(self, window: list[Line], result: TranslatedWindow, report: Report, warn: Report) -> int:
        """Add a window to the translations; returns the number of lines so far."""
        write_window(window, result, self._written, report, warn)
        return self._written.progress.lines

    def finish(self) -> None:
        """Write the output shard from the translations.

        Raises:
            InputError: the input shard cannot be read again.
        """
        self.format.write(self.path, self.translations, self.output, self.columns)
        self._written.finish()
        self.remove_unfinished()

    def close(self) -> None:
        """Leave the shard unfinished, unlocked for a later run."""
        if self._written:
            self._written.close()

    def remove_unfinished(self) -> None:
        """Remove the translations and their progress."""
        for path in (self.translations, progress_file(self.translations)):
            path.unlink(missing_ok=True)


def find_shards(folder: Path, output: Path, columns: Columns) -> tuple[list[Shard], list[str]]:
    """The shards of a folder, sorted by name, and the names of everything else in it.

    Names that begin with a dot or an underscore, such as `_SUCCESS`, are ignored.

    Raises:
        InputError: the folder has no shards.
    """
    paths = [path for path in sorted(folder.iterdir()) if not path.name.startswith((".", "_"))]
    formats = {path: None if path.is_dir() else shard_format(path) for path in paths}
    shards = [Shard(path, output / path.name, kind, columns) for path, kind in formats.items() if kind]
    if not shards:
        raise InputError(f"{folder} has no shards: no .txt or .jsonl files (also .gz or .zst) and no .parquet files.")
    return shards, [path.name for path, kind in formats.items() if not kind]


def folder_errors(folder: str, output: str) -> list[str]:
    """Errors about the paths of the folders to read and to write."""
    errors = [error for path, kind in ((folder, False), (output, True)) if (error := path_error(path, kind))]
    if errors:
        return errors
    if not Path(folder).is_dir():
        errors.append(f"{folder} is not a folder. Specify the folder of the shards.")
    if Path(output).exists() and not Path(output).is_dir():
        errors.append(f"{output} is a file. Specify a folder.")
    elif Path(output).resolve() == Path(folder).resolve():
        errors.append(f"{output} is the folder of the shards. Choose another one for the output.")
    return errors


def begin_folder(output: Path, settings: dict[str, Any]) -> None:
    """Record the settings that the translations of a folder depend on.

    Raises:
        InputError: the folder was begun with other settings, which the error names, or cannot be written.
    """
    file, settings = output / SETTINGS_FILE, json.loads(json.dumps(settings))
    if file.exists():
        before = read_json(file, remedy="Delete it, or choose another folder.")
        if changed := differences(before, settings):
            raise InputError(
                f"{output} was begun with other settings: {'; '.join(changed)}. Use those, or choose another folder."
            )
        return
    with writing(output), atomic_write(file) as part:
        part.write_text(json.dumps(settings), encoding="utf-8")


# How the lines of a window are written, and the window. The tuple `(None,)` asks for the fingerprint of the models.
Job = tuple[LineWriter, list[Line]]


@dataclass(frozen=True)
class OpenWorker:
    """Opens the models in the process that translates, and returns the worker that does each [`Job`].

    The worker returns a [`TranslatedWindow`], or for the tuple `(None,)` the fingerprint of the models.
    """

    settings: TranslatorSettings

    def __call__(self) -> Callable[[Job | tuple[None]], Any]:
        return ShardWorker(self.settings.open(), self.settings.content_digest())


@dataclass(frozen=True)
class ShardWorker:
    """The worker that [`OpenWorker`] returns."""

    translate: LineTranslator
    models: str

    def __call__(self, job: Job | tuple[None]) -> Any:
        if job[0] is None:
            return self.models
        write_line, window = job
        return translate_window(self.translate, write_line, window)


def translate_shards(
    shards: Iterable[Shard],
    over: Callable[[Iterator[tuple[Shard, Job | None]]], Iterator[tuple[Shard, Job | None, TranslatedWindow | None]]],
    settings: dict[str, Any],
    report_of: Callable[[str], Report],
    progress: Callable[[int], None] = lambda lines: None,
    warn_of: Callable[[str], Report] = lambda path: lambda number, why: None,
) -> None:
    """Translate each shard into its output; one that fails gets an `error`, and does not affect the others.

    Args:
        over: yields the jobs in order, each with a worker's result; a job that is None just keeps its place.
        settings: what the translations depend on.
        report_of: called with the path of a file; returns the function that reports its lines.
        progress: called with the number of lines that were translated since the last call.
        warn_of: like `report_of`, for lines whose translation may be wrong.

    Raises:
        InputError: nothing more can be translated or written.
    """

    def jobs() -> Iterator[tuple[Shard, Job | None]]:
        for shard in shards:
            try:
                for window in shard.windows(settings, report_of(str(shard.path))):
                    yield shard, (shard.format.write_line, window)
            except InputError as error:
                shard.error = str(error)
            yield shard, None  # the end of the shard

    for shard, job, result in over(jobs()):
        if job is not None:
            shard.write(job[1], result, report_of(str(shard.path)), warn_of(str(shard.path)))
            progress(len(job[1]))
        elif shard.error is not None:
            shard.close()
        else:
            try:
                shard.finish()
            except InputError as error:
                shard.error = str(error)
