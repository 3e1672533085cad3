"""Reads files of text line by line: UTF-8, plain or compressed with gzip (.gz) or Zstandard (.zst).

Only the newline ends a line: Unicode's other separators may stand inside a sentence, and counting them would shift one
side of a parallel text against the other. A carriage return before the newline and a byte order mark are no text.
However large a file is, little of it is in memory at once.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError, reason
from ..paths import path_error

CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
COMPRESSED = (".gz", ".zst")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
OTHER_PACKINGS = (".bz2", ".xz", ".lzma", ".lz4", ".br", ".7z", ".zip", ".rar", ".tar", ".tgz")

Report = Callable[[int, str], None]


def iterate_lines(path: str | Path, report: Report | None = None) -> Iterator[str]:
    """The lines of a file without their ends, read as they are asked for.

    Args:
        report: makes the best of any file: gets the number of each line that is not UTF-8 and what is wrong, and the
            line is read with U+FFFD instead; one of more than 16 MiB is read as an empty line; a file without text is
            a file without lines of text, and no error.

    Raises:
        InputError: the file is missing, empty, damaged, not UTF-8 (with the first line that is not), or has a line of
            more than 16 MiB. An empty file shows at its end: one in which no line holds text.
    """
    if report is not None:
        yield from lines_of(_chunks(path, any_kind=True), str(path), report)
        return
    has_text = False
    for text in lines_of(_chunks(path), str(path)):
        has_text = has_text or not (text == "" or text.isspace())
        yield text
    if not has_text:
        raise InputError(f"{path} is empty: no line of it holds text.")


def lines_of(chunks: Iterable[bytes], name: str, report: Report | None = None) -> Iterator[str]:
    """The lines of what comes in chunks; `name` is what an error calls it, `report` as in [`iterate_lines`]."""
    number, begun, is_left_out = 0, b"", False
    for chunk in chunks:
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield decode_line(b"" if is_left_out else line, name, number, report)
            is_left_out = False
        if len(begun) > LONGEST_LINE:
            fault = f"longer than {LONGEST_LINE >> 20} MiB"
            if report is None:
                raise InputError(f"{name}, line {number + 1}: {fault}. It needs one sentence or record a line.")
            report(number + 1, f"{fault} and left out")
            is_left_out = True
        if is_left_out:
            begun = b""
    if is_left_out:
        yield ""
    elif begun:
        yield decode_line(begun, name, number + 1, report)


def split_lines(content: bytes, name: str) -> list[str]:
    """UTF-8 text as lines, without their ends; `name` is what an error calls it.

    Raises:
        InputError: with the first line that is not UTF-8.
    """
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    return [decode_line(line, name, number) for number, line in enumerate(lines, start=1)]


def decode_line(line: bytes, name: str, number: int, report: Report | None = None) -> str:
    """A line as text, without carriage return, and without byte order mark where it is the first.

    Raises:
        InputError: it is not UTF-8, and there is no `report`, as [`iterate_lines`] takes it.
    """
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        fault = f"byte 0x{line[error.start]:02x} at column {error.start + 1} is not UTF-8"
    if report is not None:
        report(number, f"{fault} and read as U+FFFD")
        return line.decode("utf-8", errors="replace").removesuffix("\r")
    encoding = "UTF-16" if number == 1 and line.startswith(UTF_16_MARKS) else "ISO-8859-1"
    raise InputError(
        f"{name}, line {number}: {fault}. Convert the file, for example with: iconv -f {encoding} -t UTF-8"
    )


def check_file(path: str | Path, any_kind: bool = False) -> None:
    """Args:
        any_kind: take an empty file too, and a pipe.

    Raises:
        InputError: there is no such file, it cannot be opened, or it has no bytes.
    """
    path = Path(path)
    if error := path_error(path):
        raise InputError(error)
    if not (path.exists() and not path.is_dir() if any_kind else path.is_file()):
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {kind}. Give the path of a file with text.")
    if path.stat().st_size == 0 and not any_kind:
        raise InputError(f"{path} is empty.")


def packed_name_fault(path: str | Path) -> str | None:
    """Why a file of text cannot have this name; `None` where it can."""
    path = Path(path)
    if path.suffix.lower() not in (*COMPRESSED, *OTHER_PACKINGS):
        return None
    return f"{path} would be text, not packed. Name it {path.with_suffix('')}, and pack it afterwards."


def _chunks(path: str | Path, any_kind: bool = False) -> Iterator[bytes]:
    """The bytes of a file, unpacked where its name says that it is compressed."""
    check_file(path, any_kind)
    if Path(path).suffix.lower() in OTHER_PACKINGS:
        raise InputError(f"{path} is packed in a way that is not read here. Unpack it, or pack it as .gz or .zst.")
    unpack = {".gz": _gzip_chunks, ".zst": _zstandard_chunks}.get(Path(path).suffix.lower(), _plain_chunks)
    try:
        with open(path, "rb") as file:
            yield from unpack(file)
    except EOFError:
        raise InputError(f"{path} is truncated: its last bytes are missing. Copy or download it again.") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}. Is it damaged, or is its suffix wrong?") from None


def _plain_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _gzip_chunks(file: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as unpacked:
        yield from _plain_chunks(unpacked)


def _zstandard_chunks(file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise InputError(f"{file.name} needs the package zstandard: pip install zstandard") from None

    # Its own reader takes a truncated frame for a whole one; here the end of each frame is seen. The window is what
    # `zstd --long=31` may have used.
    frame = None
    try:
        while chunk := file.read(CHUNK // 4):
            while chunk:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
                yield frame.decompress(chunk)
                chunk = b""
                if frame.eof:
                    frame, chunk = None, frame.unused_data
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from None
    if frame is not None:
        raise EOFError
