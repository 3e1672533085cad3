"""Reads text files line by line: UTF-8, plain or compressed with gzip (.gz) or Zstandard (.zst), whatever their names.

Only a newline ends a line: Unicode's other separators may occur inside a sentence, and counting them would shift one
side of a parallel text against the other. A carriage return before the newline is removed, and so is a byte order
mark before a line. Other encodings, files that are not text, and line ends of old Macs are errors. However large a
file is, only a small piece of it is in memory at a time.
"""

import codecs
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from ...errors import InputError, counted, line_range, reason
from ...files import path_error
from ...text.normalization import is_blank

CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
COMPRESSED = (".gz", ".zst")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The bytes that files of other kinds begin with. UTF-32 first, whose mark begins with that of UTF-16.
ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip
COMPRESSED_STARTS = {b"\x1f\x8b\x08": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
TO_UTF_8 = "iconv -f ISO-8859-1 -t UTF-8"
# (name, offset, mark). An archive is known by its content, not by its suffix: a text in Rarámuri is text.tar.
ARCHIVES = [
    ("bzip2", 4, b"1AY&SY"), ("xz", 0, b"\xfd7zXZ\0"), ("lz4", 0, b"\x04\x22\x4d\x18"),
    ("7-Zip", 0, b"7z\xbc\xaf\x27\x1c"), ("ZIP", 0, b"PK\x03\x04"), ("RAR", 0, b"Rar!\x1a\x07"),
    ("tar", 257, b"ustar\0"), ("tar", 257, b"ustar  \0"),
]  # fmt: skip
OTHER_COMPRESSIONS = (".bz2", ".xz", ".lzma", ".lz4", ".7z", ".zip", ".rar", ".tgz")

Report = Callable[[int, str], None]
Pair = tuple[str, str]


def iterate_lines(path: str | Path, report: Report | None = None) -> Iterator[str]:
    """Lazily yield the lines of a file, without line breaks.

    Args:
        report: if given, any content is tolerated, and `report` is called with the number of each bad line and what is
            wrong with it: lines that are not UTF-8 are read with U+FFFD in place of invalid bytes, and reported
            together at the end, and a line of more than 16 MiB becomes an empty one. A file without text is not an
            error.

    Raises:
        InputError: the file is missing, empty, damaged, not text, not UTF-8 (names the first such line), or has a
            line of more than 16 MiB. If no line has any text, the error is raised at the end of the file.
    """
    if report is not None:
        yield from lines_of(read_chunks(path, any_kind=True), str(path), report)
        return
    has_text = False
    for text in lines_of(read_chunks(path), str(path)):
        has_text = has_text or not is_blank(text)
        yield text
    if not has_text:
        raise InputError(f"{path} has no text: all of its lines are blank.")


def lines_of(chunks: Iterable[bytes], name: str, report: Report | None = None) -> Iterator[str]:
    """Decode the lines in chunks of bytes; `name` is for messages, and `report` is as in [`iterate_lines`]."""
    invalid, first = 0, (0, "")
    for number, line in enumerate(_split_lines(chunks, name, report), start=1):
        line = line.removeprefix(BYTE_ORDER_MARK)  # joined files have it inside
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"byte 0x{line[error.start]:02x} at column {error.start + 1} is not valid UTF-8"
            if report is None:
                raise InputError(
                    f"{name}, line {number}: {problem}. Convert the file, for example with: {TO_UTF_8}"
                ) from None
            invalid, first = invalid + 1, first if invalid else (number, problem)
            text = line.decode("utf-8", errors="replace")
        yield text.removesuffix("\r")
    if invalid:
        others = f", as in {counted(invalid - 1, 'further line')}" if invalid > 1 else ""
        report(first[0], f"{first[1]} and was read as U+FFFD{others} (to convert a file: {TO_UTF_8})")


def _split_lines(chunks: Iterable[bytes], name: str, report: Report | None) -> Iterator[bytes]:
    number, begun, is_left_out = 0, b"", False
    for chunk in chunks:
        if number == 0 and not begun:
            _check_kind(chunk, name)
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield b"" if is_left_out else line
            is_left_out = False
        if len(begun) > LONGEST_LINE:
            problem = f"longer than {LONGEST_LINE >> 20} MiB"
            if report is None:
                raise InputError(f"{name}, line {number + 1}: {problem}. Put one sentence or record on each line.")
            report(number + 1, f"{problem} and left out")
            is_left_out = True
        if is_left_out:
            begun = b""
    if number == 0 and b"\r" in begun.rstrip(b"\r"):
        raise InputError(f"{name}: its lines end with carriage returns. Convert it with: tr '\\r' '\\n'")
    if begun or is_left_out:
        yield begun


def _check_kind(start: bytes, name: str) -> None:
    """Refuse the beginning of an archive, of a file in UTF-16 or UTF-32, or not of text; single NULs are allowed."""
    archive = next((archive for archive, offset, mark in ARCHIVES if start.startswith(mark, offset)), None)
    if archive:
        raise InputError(f"{name} is a {archive} archive. Decompress it, or compress its text as .gz or .zst.")
    encoding = next((encoding for mark, encoding in ENCODINGS.items() if start.startswith(mark)), None)
    even, odd = start[::2].count(0), start[1::2].count(0)
    if encoding is None and max(even, odd) > len(start) / 4 > 10 * min(even, odd):
        encoding = "UTF-16BE" if even > odd else "UTF-16LE"
    if encoding:
        raise InputError(f"{name} is in {encoding}. Convert it with: iconv -f {encoding} -t UTF-8")
    if b"\0\0" in start:
        raise InputError(f"{name} is not a text file: it contains NUL bytes. Name a file with text in UTF-8.")


def check_file(path: str | Path, any_kind: bool = False) -> None:
    """Check that a path is a readable file with content.

    Args:
        any_kind: also accept an empty file or a pipe.

    Raises:
        InputError: the file does not exist, cannot be opened, or is empty.
    """
    path = Path(path)
    if error := path_error(path):
        raise InputError(error)
    if not (path.exists() and not path.is_dir() if any_kind else path.is_file()):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a pipe or a device, which can be read only once. Save its text to a file.")
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {kind}. Specify the path of a text file.")
    if path.stat().st_size == 0 and not any_kind:
        raise InputError(f"{path} is empty.")


def check_lines(path: str | Path) -> None:
    """Check that the lines of a file can be read, judging by the first one; those of a pipe are not read.

    Raises:
        InputError: the file does not exist, cannot be opened or decompressed, or is not text.
    """
    check_file(path, any_kind=True)
    if Path(path).is_file():
        next(iterate_lines(path, lambda *_: None), None)


def compression_error(path: str | Path) -> str | None:
    """Say why text cannot be compressed as the suffix of its file says; `None` if it can."""
    if Path(path).suffix.lower() in OTHER_COMPRESSIONS:
        return f"{path}: unsupported compression. Specify a file that ends in .gz or .zst, or in neither."
    return None


def compressed(content: bytes, path: str | Path) -> bytes:
    """A part of a file, compressed if the file's suffix says so, such that parts can simply be joined."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        return gzip.compress(content, mtime=0)
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdCompressor().compress(content)
    return content


def read_chunks(path: str | Path, any_kind: bool = False) -> Iterator[bytes]:
    """The bytes of a file, decompressed, a piece at a time.

    Raises:
        InputError: the file is missing, empty, or damaged.
    """
    check_file(path, any_kind)
    try:
        with open(path, "rb") as file:
            yield from _reader(file, Path(path).suffix.lower())(file)
    except EOFError:
        raise InputError(f"{path} is truncated: its last bytes are missing. Copy or download it again.") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}. Is it damaged, or is its suffix wrong?") from None


def _reader(file: BinaryIO, suffix: str) -> Callable[[BinaryIO], Iterator[bytes]]:
    """What reads a file, judging by its suffix or else by how it begins."""
    readers = {".gz": _gzip_chunks, ".zst": _zstandard_chunks}
    found = (kind for start, kind in COMPRESSED_STARTS.items() if file.peek(len(start)).startswith(start))
    return readers.get(suffix) or readers.get(next(found, ""), _plain_chunks)


def _plain_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _gzip_chunks(file: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as decompressed:
        yield from _plain_chunks(decompressed)


def _zstandard_chunks(file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise InputError(f"{file.name} needs the package zstandard: pip install zstandard") from None

    # zstandard's own reader accepts a truncated frame; here the end of each frame is checked. The window is as large
    # as that of `zstd --long=31`, the maximum.
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


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a UTF-8 file, without line breaks; raises the errors of [`iterate_lines`]."""
    return list(iterate_lines(path))


def iterate_parallel(
    source: str | Path, target: str | Path, reports: tuple[Report | None, Report | None] = (None, None)
) -> Iterator[Pair]:
    """Lazily yield the pairs (source line, target line) of two parallel files; empty lines are kept.

    Args:
        reports: one for each side on which invalid lines are to be reported instead of raised; see
            [`iterate_lines`].

    Raises:
        InputError: a file is missing, empty or not UTF-8 (with file and line), or one side has more lines.
    """
    ended = object()
    sides = [iterate_lines(path, report) for path, report in zip((source, target), reports)]
    for number, pair in enumerate(zip_longest(*sides, fillvalue=ended)):
        if ended in pair:
            # Read the longer side to its end, so that the error names all lines without a counterpart.
            lines = [number if text is ended else number + 1 + sum(1 for _ in side) for text, side in zip(pair, sides)]
            raise unequal_lines((source, target), lines)
        yield pair


def unequal_lines(paths: tuple[str | Path, str | Path], lines: list[int]) -> InputError:
    """The error for two files with different numbers of lines."""
    longer, shorter = paths if lines[0] > lines[1] else paths[::-1]
    have = "has" if abs(lines[0] - lines[1]) == 1 else "have"
    return InputError(
        f"{paths[0]} has {counted(lines[0], 'line')} and {paths[1]} has {lines[1]:,}: "
        f"{line_range(min(lines) + 1, max(lines))} of {longer} {have} no counterpart in {shorter}. Line n of one file "
        "must translate line n of the other."
    )


def line_errors(first: str, texts: Mapping[str, list[str] | None]) -> list[str]:
    """Return an error for each file whose number of lines differs from that of the first.

    Args:
        first: the path of the first file.
        texts: the lines of each file by its path; `None` for files that could not be read.
    """
    expected = texts[first]
    if expected is None:
        return []
    return [
        str(unequal_lines((path, first), [len(lines), len(expected)]))
        for path, lines in texts.items()
        if lines is not None and len(lines) != len(expected)
    ]
