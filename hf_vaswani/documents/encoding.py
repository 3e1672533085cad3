"""Between the bytes of a text file and its text: byte order marks, declared encodings, UTF-8."""

import codecs
import re
from collections.abc import Callable

from ..errors import InputError

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # begins with UTF-16's
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
DECLARED = {
    "html": rb"""<meta[^<>]*charset\s*=\s*["']?([\w.:-]+)""",
    "xml": rb"""^\s*<\?xml[^<>]*encoding\s*=\s*["']([\w.:-]+)""",
    "po": rb'"Content-Type:[^"\n]*charset=([\w.:-]+)',
}
DECLARED |= dict.fromkeys(("xliff", "tmx", "resx", "strings", "stringsdict"), DECLARED["xml"])
SEARCHED = 4096  # bytes


def decode(content: bytes, kind: str) -> tuple[str, Callable[[str], bytes]]:
    """The text of a file, and what turns another one into bytes in the same way.

    Args:
        kind: where the file may declare its encoding: a key of `DECLARED`, or anything else.

    Raises:
        InputError: the bytes are not text in the encoding.
    """
    mark, encoding = next(((mark, name) for mark, name in MARKS.items() if content.startswith(mark)), (b"", ""))
    declared = re.search(DECLARED[kind], content[:SEARCHED], re.IGNORECASE) if kind in DECLARED else None
    if not encoding:
        encoding = declared[1].decode() if declared else "utf-8"
    if declared and not _can_declare(encoding, declared[1]):
        if kind != "po":  # a template has CHARSET
            raise InputError(
                f"The file declares the encoding {encoding}, which is unknown or does not match its text. "
                "Convert it to UTF-8."
            )
        encoding = "utf-8"
    encoding = codecs.lookup(encoding).name
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeError as error:
        if not isinstance(error, UnicodeDecodeError):
            raise InputError(f"The file is not text in {encoding.upper()}. Convert it to UTF-8.") from None
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"Line {line}: byte 0x{content[len(mark) + error.start]:02x} is not text in {encoding.upper()}. "
            "Convert the file to UTF-8."
        ) from None

    def encode(text: str) -> bytes:
        try:
            return mark + text.encode(encoding, "strict" if kind == "po" else "xmlcharrefreplace")
        except UnicodeError:
            # A PO file, which cannot spell what its encoding lacks, or an encoding of names of hosts.
            content = text.encode("utf-8", "replace")
            declared = re.search(DECLARED[kind], content[:SEARCHED], re.IGNORECASE)
            return content[: declared.start(1)] + b"UTF-8" + content[declared.end(1) :] if declared else content

    return text, encode


def _can_declare(encoding: str, name: bytes) -> bool:
    """Whether an encoding is known, and a file in it can declare it by name.

    Python also calls conversions such as hex and zlib encodings, and has some that only encode host names.
    """
    try:
        "a".encode(encoding, "xmlcharrefreplace")
        return name.decode(encoding) == name.decode()
    except (LookupError, UnicodeError):
        return False
