"""Reads parallel text: two UTF-8 files, where line n of one translates line n of the other."""

from pathlib import Path

from ..errors import InputError

Pair = tuple[str, str]


def read_parallel(source: str | Path, target: str | Path) -> list[Pair]:
    """Read two parallel files.

    Returns:
        Pairs (source line, target line), without line ends; empty lines are kept.

    Raises:
        InputError: a file is missing, empty or not UTF-8 (file and line), or one side has more lines; all at once.
    """
    sides, faults = [], []
    for path in (source, target):
        try:
            sides.append(read_lines(path))
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError.of(faults)
    lines = [len(side) for side in sides]
    if lines[0] != lines[1]:
        longer, shorter = (source, target) if lines[0] > lines[1] else (target, source)
        raise InputError(
            f"{source} has {lines[0]} lines and {target} has {lines[1]}: lines {min(lines) + 1} to {max(lines)} of "
            f"{longer} have no counterpart in {shorter}. Line n of one file must translate line n of the other."
        )
    return list(zip(*sides))


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file, without line ends.

    Only the newline ends a line: Unicode's other separators may stand inside a sentence, and counting them would
    shift one side against the other.

    Raises:
        InputError: the file is missing, empty, or not UTF-8 (with the first line that is not).
    """
    path = Path(path)
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {kind}. Give the path of a text file with one sentence per line.")
    content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise InputError(f"{path} is empty. It needs one sentence per line.")
    return split_lines(content, str(path))


def split_lines(content: bytes, name: str) -> list[str]:
    """UTF-8 text as lines, without their ends; `name` is what an error calls it.

    Raises:
        InputError: with the first line that is not UTF-8.
    """
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    return [_decode(line, name, number).removesuffix("\r") for number, line in enumerate(lines, start=1)]


def _decode(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise InputError(
            f"{name}, line {number}: byte 0x{byte:02x} at column {error.start + 1} is not UTF-8. Convert the file, "
            "for example with: iconv -f ISO-8859-1 -t UTF-8"
        ) from None
