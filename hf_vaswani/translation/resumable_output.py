"""A file that is written window by window, so that a run that was interrupted at any moment can go on.

Beside the output stands `.NAME.progress.json` until the output is finished: how much of it is whole, of which lines of
the input that was made, and with which model and settings. What the output holds beyond that is cut off.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..data.text_files import packed_name_fault
from ..errors import InputError, reason
from ..locks import lock
from ..paths import path_error


@dataclass
class Progress:
    """How far an output is: windows and lines of the input, bytes of the output, a digest of those lines."""

    windows: int = 0
    lines: int = 0
    bytes: int = 0
    digest: str = ""


class StreamOutput:
    """An output that cannot be gone on with: standard output, a pipe or a device."""

    def __init__(self, stream: BinaryIO):
        self.progress = Progress()
        self._stream = stream

    def write(self, content: bytes, lines: Sequence[Sequence[str]]) -> None:
        """Add what was made of one window of lines."""
        self._stream.write(content)
        self._stream.flush()
        self.progress.windows += 1
        self.progress.lines += len(lines)

    def finish(self) -> None:
        """Nothing is left to do."""


class ResumableOutput:
    """An output file and its progress.

    Args:
        path: of the output.
        overwrite: begin anew where there is one.
        resume: go on where there is an unfinished one, and begin where there is none.

    Raises:
        InputError: the file cannot be written; it exists, and neither is asked for; or it is not unfinished.
    """

    def __init__(self, path: str | Path, overwrite: bool = False, resume: bool = False):
        if error := path_error(path, is_output=True):
            raise InputError(error)
        self.path = Path(path)
        self._check_writable()
        self.side_file = self.path.with_name(f".{self.path.name}.progress.json")
        self.progress = Progress()
        self._seen = self._state()
        self._settings: dict[str, Any] = {}
        self._digest = hashlib.sha256()
        if resume:
            self._read_progress()
        elif self.path.exists() and not overwrite:
            if self.side_file.exists():
                raise InputError(f"{path} is unfinished. Go on with it (--resume) or begin anew (--overwrite).")
            raise InputError(f"{path} exists. Name another file, or replace it (--overwrite).")

    def begin(self, settings: dict[str, Any], lines: Iterator[Sequence[str]]) -> None:
        """Open the file; where it is gone on with, at the end of what is whole, and read over the lines that are done.

        Args:
            settings: what the output depends on besides the lines, in values that JSON has.
            lines: each a row of strings.

        Raises:
            InputError: the unfinished output was made with other settings, which it names, or of other lines; or
                another run writes the file.
        """
        settings = json.loads(json.dumps(settings))
        try:
            # Nothing is cut off before it is certain that the file may be written.
            self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}. Name another file.") from None
        self._hold()
        if self._settings:
            self._check_same(settings)
            self._skip(lines)
        self._settings = settings
        try:
            self._file.truncate(self.progress.bytes)
            self._file.seek(self.progress.bytes)
            self._save_progress()
        except OSError as error:
            raise self._cannot_write(error) from None

    def write(self, content: bytes, lines: Sequence[Sequence[str]]) -> None:
        """Add what was made of one window of lines.

        Raises:
            InputError: where it cannot be written, the disk being full, say.
        """
        done = self.progress
        _add(self._digest, lines)
        try:
            self._file.write(content)
            _to_disk(self._file)
            self.progress = Progress(
                done.windows + 1, done.lines + len(lines), done.bytes + len(content), self._digest.hexdigest()
            )
            self._save_progress()
        except OSError as error:
            self._file.close()
            raise self._cannot_write(error) from None

    def finish(self) -> None:
        """Close the file, which is whole."""
        self._file.close()
        self.side_file.unlink(missing_ok=True)

    def _hold(self) -> None:
        """Keep the file from other runs until it is closed, and make sure that none has written it since it was
        looked at.
        """
        try:
            lock(self._file.fileno())
        except BlockingIOError:
            self._file.close()
            raise InputError(f"Another run is writing {self.path}. Wait for its end, or name another file.") from None
        if self._seen != self._state():
            self._file.close()
            raise InputError(f"Another run has written {self.path} meanwhile. Look at it, or name another file.")

    def _state(self) -> tuple[bytes, int]:
        """What tells whether another run has been here: the record of its progress, and the size of the output."""
        record = self.side_file.read_bytes() if self.side_file.is_file() else b""
        return record, self.path.stat().st_size if self.path.exists() else 0

    def _cannot_write(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written: {error.strerror or error}. Go on later with --resume.")

    def _check_writable(self) -> None:
        folder = self.path.resolve().parent
        if not folder.is_dir():
            raise InputError(f"{self.path} cannot be written: its folder does not exist. Make it first.")
        if self.path.is_dir() or not os.access(self.path if self.path.exists() else folder, os.W_OK):
            raise InputError(f"{self.path} cannot be written. Name another file.")
        if fault := packed_name_fault(self.path):
            raise InputError(fault)

    def _read_progress(self) -> None:
        if not self.side_file.exists():
            if self.path.exists():
                raise InputError(
                    f"{self.path} cannot be gone on with, since {self.side_file.name} is not beside it: it is "
                    "finished, or was made otherwise. Begin anew with --overwrite, or name another file."
                )
            return
        try:
            record = json.loads(self.side_file.read_text(encoding="utf-8"))
            self._settings, self.progress = record["settings"], Progress(**record["progress"])
            size = self.path.stat().st_size
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{self.path} cannot be gone on with: {reason(error)}. Begin anew with --overwrite."
            ) from None
        if size < self.progress.bytes:
            raise InputError(
                f"{self.path} cannot be gone on with: it has {size:,} bytes, and {self.progress.bytes:,} were "
                "written. Begin anew with --overwrite."
            )

    def _check_same(self, settings: dict[str, Any]) -> None:
        names = {**self._settings, **settings}
        others = [name for name in names if self._settings.get(name) != settings.get(name)]
        if others:
            faults = [f"{name} was {self._settings.get(name)!r} and is {settings.get(name)!r}" for name in others]
            raise InputError(
                f"{self.path} was begun otherwise: {'; '.join(faults)}. Go on with what it was begun with, or begin "
                "anew with --overwrite."
            )

    def _skip(self, lines: Iterator[Sequence[str]]) -> None:
        for number in range(self.progress.lines):
            line = next(lines, None)
            if line is None:
                raise InputError(
                    f"The input has {number:,} lines, and {self.path} was made of {self.progress.lines:,} or more. "
                    "Give the same input, or begin anew with --overwrite."
                )
            _add(self._digest, [line])
        if self.progress.lines and self._digest.hexdigest() != self.progress.digest:
            raise InputError(
                f"The first {self.progress.lines:,} lines of the input are not those that {self.path} was made of. "
                "Give the same input, or begin anew with --overwrite."
            )

    def _save_progress(self) -> None:
        part = self.side_file.with_name(f"{self.side_file.name}.part")
        with open(part, "w", encoding="utf-8") as file:
            json.dump({"settings": self._settings, "progress": asdict(self.progress)}, file)
            _to_disk(file)
        os.replace(part, self.side_file)


def _to_disk(file) -> None:
    file.flush()
    os.fsync(file.fileno())


def _add(digest, lines: Iterable[Sequence[str]]) -> None:
    for line in lines:
        for text in line:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
