"""Writes a file window by window, so that a run that is interrupted at any moment can be resumed.

Until the output is finished, `.NAME.progress.json` next to it records how much of it is complete, from which lines of
the input, and with which model and settings. Anything beyond that is cut off when a run resumes.

A new output is written in place. An output that replaces a file is written next to it, as `.NAME.part`, and takes its
place once it is complete. A `.gz` or `.zst` is compressed, each window on its own.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, get_type_hints

from ..errors import InputError, counted, reason
from ..files import atomic_write, check_types, path_error, read_json, sync
from ..ledger import NO_LINK, busy, differences, lock
from .sources.text_files import compressed, compression_error


@dataclass
class Progress:
    """What of an output is complete: windows and lines of the input, a digest of those lines, bytes of the output, and
    the seconds that it took."""

    windows: int = 0
    lines: int = 0
    bytes: int = 0
    digest: str = ""
    seconds: float = 0.0


def progress_file(path: Path) -> Path:
    """The file that records the progress of an output; it exists until the output is finished."""
    return path.with_name(f".{path.name}.progress.json")


def output_error(path: str | Path) -> str | None:
    """Why a file of translations cannot be written; `None` if it can."""
    file = Path(path).resolve()
    if file.exists() and not file.is_file():
        return f"{path} is {'a folder' if file.is_dir() else 'not an ordinary file'}. Choose another file."
    if not file.parent.is_dir():
        return f"{path} cannot be written: its folder does not exist. Choose another file."
    if not all(os.access(place, os.W_OK) for place in (file, file.parent) if place.exists()):
        return f"{path} cannot be written: no permission. Choose another file."
    return compression_error(path)


class NothingToResume(InputError):
    """There is an output, but no record of its progress."""


class NotResumable(InputError):
    """There is an unfinished output, but it is damaged, or was made from other input or with other settings."""


class StreamOutput:
    """An output that cannot be resumed: standard output, a pipe or a device.

    Args:
        path: the path of a pipe or device.
    """

    def __init__(self, stream: BinaryIO, path: Path | None = None):
        self.progress = Progress()
        self._stream, self._path = stream, path

    def write(self, content: bytes, lines: Sequence[Sequence[str]]) -> None:
        """Add the output of one window of lines."""
        try:
            self._stream.write(content)
            self._stream.flush()
        except OSError as error:
            if self._path:
                error.filename = str(self._path)
            raise
        self.progress.windows += 1
        self.progress.lines += len(lines)

    def finish(self) -> None:
        """Do nothing: everything is written already."""


class ResumableOutput:
    """An output file and its progress.

    Args:
        path: path of the output.
        overwrite: replace an existing output, which is kept until the new one is complete.
        resume: continue an unfinished output, or begin a new one if there is none.
        continues: ends the message of a failed write, and says how to continue with the command that was used.

    Raises:
        NothingToResume: with `resume`, the file exists but has no record of its progress.
        NotResumable: with `resume`, the unfinished output or the record of its progress is damaged.
        InputError: the file cannot be written, or exists and neither `overwrite` nor `resume` is set.
    """

    def __init__(
        self,
        path: str | Path,
        overwrite: bool = False,
        resume: bool = False,
        continues: str = "Resume later with --resume.",
    ):
        if error := path_error(path, is_output=True) or output_error(path):
            raise InputError(error)
        self.path = Path(path)
        self.continues = continues
        self.side_file = progress_file(self.path)
        # Next to the file that a symbolic link points to, so that the link is kept.
        part = self.path.resolve()
        self.part = part.with_name(f".{part.name}.part")
        is_part_resumed = resume and self.side_file.exists() and self.part.exists()
        self._is_replacing = is_part_resumed or (overwrite and self.path.exists())
        self._written = self.part if self._is_replacing else self.path
        self.progress = Progress()
        self._seen = self._state()
        self._settings: dict[str, Any] = {}
        self._digest = hashlib.sha256()
        if resume:
            self._read_progress()
        elif self.path.exists() and not overwrite:
            if self.side_file.exists():
                raise InputError(f"{path} is unfinished. Resume it (--resume) or start over (--overwrite).")
            raise InputError(f"{path} exists. Choose another file, or replace it (--overwrite).")

    def begin(self, settings: dict[str, Any], lines: Iterator[Sequence[str]]) -> None:
        """Open the file, at the end of the complete part if it is resumed, and skip the lines that are done.

        Args:
            settings: what the output depends on besides the lines, as JSON values.
            lines: the lines of the input, each a row of strings.

        Raises:
            NotResumable: the unfinished output was made with other settings, which the error names, or from other
                lines.
            InputError: another run is writing the file, or it cannot be written.
        """
        settings = json.loads(json.dumps(settings))
        self._began = time.monotonic() - self.progress.seconds
        try:
            # Nothing is cut off before this run holds the lock. A file that is replaced is locked as well, which is
            # how runs notice each other.
            self._held = _open(self.path)
            self._hold()
            self._file = _open(self.part, NO_LINK) if self._is_replacing else self._held
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}. Choose another file.") from None
        is_resumed = bool(self._settings)
        if is_resumed:
            self._check_same(settings)
            self._skip(lines)
        self._settings = settings
        try:
            if not is_resumed:
                self._forget_earlier()
            self._file.truncate(self.progress.bytes)
            self._file.seek(self.progress.bytes)
            self._save_progress()
        except OSError as error:
            raise self._cannot_write(error) from None

    def write(self, content: bytes, lines: Sequence[Sequence[str]]) -> None:
        """Add the output of one window of lines.

        Raises:
            InputError: the output cannot be written, for example because the disk is full.
        """
        done, content = self.progress, compressed(content, self.path)
        _add(self._digest, lines)
        try:
            self._file.write(content)
            _to_disk(self._file)
            self.progress = Progress(
                done.windows + 1,
                done.lines + len(lines),
                done.bytes + len(content),
                self._digest.hexdigest(),
                time.monotonic() - self._began,
            )
            self._save_progress()
        except OSError as error:
            self.close()
            raise self._cannot_write(error) from None

    def finish(self) -> None:
        """Close the complete file, and move it into the place of the file that it replaces, if any.

        Raises:
            InputError: the file cannot be moved, or the record of its progress cannot be removed.
        """
        try:
            if not self.progress.windows:
                self._file.write(compressed(b"", self.path))
            self._file.flush()
            # The lock is held until the file is in its place, so that no other run begins to write to it before.
            if self._is_replacing:
                shutil.copymode(self.path, self.part)
                os.replace(self.part, self.path.resolve())
                sync(self.path.resolve().parent)
            self.side_file.unlink(missing_ok=True)
        except OSError as error:
            raise self._cannot_write(error) from None
        finally:
            self.close()

    def close(self) -> None:
        """Close and unlock the file, so that it can be resumed later, in this process or another one."""
        for name in ("_file", "_held"):
            if hasattr(self, name):
                with suppress(OSError):  # what is still in its buffer, on a full disk
                    getattr(self, name).close()

    def _forget_earlier(self) -> None:
        """Remove what an earlier run left next to the output, so that it is never taken for this run's."""
        self.side_file.unlink(missing_ok=True)
        if not self._is_replacing:
            self.part.unlink(missing_ok=True)

    def _hold(self) -> None:
        """Lock the file until it is closed, and make sure that no other run has written it in the meantime."""
        try:
            lock(self._held.fileno())
        except BlockingIOError:
            self._held.close()
            raise busy(self.path) from None
        if self._seen != self._state():
            self._held.close()
            raise InputError(f"Another run wrote to {self.path} in the meantime. Check it, or choose another file.")

    def _state(self) -> tuple[bytes, list[int]]:
        """What another run would change: the record of the progress, and the sizes of the output and its `.part`."""
        record = self.side_file.read_bytes() if self.side_file.is_file() else b""
        return record, [path.stat().st_size if path.exists() else 0 for path in (self.path, self.part)]

    def _cannot_write(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written: {error.strerror or error}. {self.continues}")

    def _read_progress(self) -> None:
        if not self.side_file.exists():
            if self.path.exists():
                raise NothingToResume(
                    f"{self.path} cannot be resumed, since {self.side_file.name} is not next to it: it is finished, "
                    "or was made in another way. Start over with --overwrite, or choose another file."
                )
            return
        try:
            record = read_json(self.side_file, remedy="")
            check_types(self.side_file, record, {"settings": dict, "progress": dict})
            progress = {"seconds": 0.0, **record["progress"]}  # which earlier versions did not count
            check_types(self.side_file, progress, get_type_hints(Progress))
            self._settings, self.progress = record["settings"], Progress(**progress)
            if min(self.progress.windows, self.progress.lines, self.progress.bytes) < 0:
                raise InputError(f"{self.side_file} contains a number below 0.")
            size = self._written.stat().st_size
        except (OSError, InputError) as error:
            raise NotResumable(
                f"{self.path} cannot be resumed: {reason(error)} Start over with --overwrite."
            ) from None
        if size < self.progress.bytes:
            raise NotResumable(
                f"{self.path} cannot be resumed: {self._written.name} has {counted(size, 'byte')}, but "
                f"{self.progress.bytes:,} were written. Start over with --overwrite."
            )

    def _check_same(self, settings: dict[str, Any]) -> None:
        if changed := differences(self._settings, settings):
            raise NotResumable(
                f"{self.path} was begun with other settings: {'; '.join(changed)}. Use those, or start over with "
                "--overwrite."
            )

    def _skip(self, lines: Iterator[Sequence[str]]) -> None:
        for number in range(self.progress.lines):
            line = next(lines, None)
            if line is None:
                raise NotResumable(
                    f"The input has {counted(number, 'line')}, but {self.path} was made from "
                    f"{self.progress.lines:,} or more. Give the same input, or start over with --overwrite."
                )
            _add(self._digest, [line])
        if self.progress.lines and self._digest.hexdigest() != self.progress.digest:
            raise NotResumable(
                f"The input does not begin with the {counted(self.progress.lines, 'line')} that {self.path} was made "
                "from. Give the same input, or start over with --overwrite."
            )

    def _save_progress(self) -> None:
        with atomic_write(self.side_file) as part, open(part, "w", encoding="utf-8") as file:
            json.dump({"settings": self._settings, "progress": asdict(self.progress)}, file)


def _open(path: Path, flags: int = 0) -> BinaryIO:
    """Open a file for reading and writing; create it if needed, and leave its content as it is."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666), "r+b")


def _to_disk(file) -> None:
    file.flush()
    os.fsync(file.fileno())


def _add(digest, lines: Iterable[Sequence[str]]) -> None:
    for line in lines:
        for text in line:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
