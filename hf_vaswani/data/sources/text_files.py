"""Reads text files line by line: UTF-8, plain or compressed with gzip (.gz) or Zstandard (.zst).

Only a newline ends a line: Unicode's other separators may occur inside a sentence, and counting them would shift one
side of a parallel text against the other. A carriage return before the newline is removed, and so is a byte order
mark before a line. However large a file is, only a small piece of it is in memory at a time.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ...core.tokenization_invisible import is_blank
from ...errors import InputError, reason
from ...files import path_error

CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
COMPRESSED = (".gz", ".zst")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
OTHER_COMPRESSIONS = (".bz2", ".xz", ".lzma", ".lz4", ".7z", ".zip", ".rar", ".tar", ".tgz")

Report = Callable[[int, str], None]


def iterate_lines(path: str | Path, report: Report | None = None) -> Iterator[str]:
    """Lazily yield the lines of a file, without line breaks.

    Args:
        report: if given, any content is tolerated, and `report` is called with the number of each bad line and what is
            wrong with it: a line that is not UTF-8 is read with U+FFFD in place of invalid bytes, and a line of more
            than 16 MiB becomes an empty one. A file without text is not an error.

    Raises:
        InputError: the file is missing, empty, damaged, not UTF-8 (names the first such line), or has a line of more
            than 16 MiB. If no line has any text, the error is raised at the end of the file.
    """
    if report is not None:
        yield from lines_of(_chunks(path, any_kind=True), str(path), report)
        return
    has_text = False
    for text in lines_of(_chunks(path), str(path)):
        has_text = has_text or not is_blank(text)
        yield text
    if not has_text:
        raise InputError(f"{path} has no text: all of its lines are blank.")


def lines_of(chunks: Iterable[bytes], name: str, report: Report | None = None) -> Iterator[str]:
    """Split chunks of bytes into lines; `name` is for messages, and `report` is as in [`iterate_lines`]."""
    number, begun, is_left_out = 0, b"", False
    for chunk in chunks:
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield _decode_line(b"" if is_left_out else line, name, number, report)
            is_left_out = False
        if len(begun) > LONGEST_LINE:
            problem = f"longer than {LONGEST_LINE >> 20} MiB"
            if report is None:
                raise InputError(f"{name}, line {number + 1}: {problem}. Put one sentence or record on each line.")
            report(number + 1, f"{problem} and left out")
            is_left_out = True
        if is_left_out:
            begun = b""
    if is_left_out:
        yield ""
    elif begun:
        yield _decode_line(begun, name, number + 1, report)


def _decode_line(line: bytes, name: str, number: int, report: Report | None) -> str:
    """Decode a line, without a final carriage return and without a byte order mark, which joined files have inside."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        problem = f"byte 0x{line[error.start]:02x} at column {error.start + 1} is not UTF-8"
    if report is not None:
        report(number, f"{problem} and read as U+FFFD")
        return line.decode("utf-8", errors="replace").removesuffix("\r")
    encoding = "UTF-16" if number == 1 and line.startswith(UTF_16_MARKS) else "ISO-8859-1"
    raise InputError(
        f"{name}, line {number}: {problem}. Convert the file, for example with: iconv -f {encoding} -t UTF-8"
    )


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


def compression_error(path: str | Path) -> str | None:
    """Say why text cannot be compressed as the suffix of its file says; `None` if it can."""
    is_unknown = Path(path).suffix.lower() in OTHER_COMPRESSIONS
    return (
        f"{path}: unsupported compression. Specify a file that ends in .gz or .zst, or in neither." * is_unknown
        or None
    )


def compressed(content: bytes, path: str | Path) -> bytes:
    """A part of a file, compressed if the file's suffix says so, such that parts can simply be joined."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        return gzip.compress(content, mtime=0)
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdCompressor().compress(content)
    return content


def _chunks(path: str | Path, any_kind: bool = False) -> Iterator[bytes]:
    """The bytes of a file, decompressed according to its suffix."""
    check_file(path, any_kind)
    # An archive may also be inside: text.tar.gz.
    inner = Path(path).with_suffix("") if Path(path).suffix.lower() in COMPRESSED else Path(path)
    if inner.suffix.lower() in OTHER_COMPRESSIONS:
        raise InputError(f"{path}: unsupported compression. Decompress it, or compress it as .gz or .zst.")
    decompress = {".gz": _gzip_chunks, ".zst": _zstandard_chunks}.get(Path(path).suffix.lower(), _plain_chunks)
    try:
        with open(path, "rb") as file:
            yield from decompress(file)
    except EOFError:
        raise InputError(f"{path} is truncated: its last bytes are missing. Copy or download it again.") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}. Is it damaged, or is its suffix wrong?") from None


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
