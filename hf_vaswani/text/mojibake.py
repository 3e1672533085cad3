"""Finds text in UTF-8 that was read as Latin-1 or Windows-1252: `Ã¼` in place of `ü`, `â€™` in place of `’`."""

import re
from collections.abc import Sequence

# The bytes 0x80 to 0xBF, with which a character in UTF-8 continues, as Latin-1 and Windows-1252 read them.
_CONTINUATION = f"[\x80-\xbf{bytes(range(0x80, 0xA0)).decode('cp1252', 'ignore')}]"
# A Western letter or punctuation mark, or two characters in a row of any script. "MANHÃ…" is Portuguese.
MOJIBAKE = re.compile(f"(?<![A-Z])[ÂÃ]{_CONTINUATION}|â[€‚\x80\x82]{_CONTINUATION}|([Â-ô]{_CONTINUATION}{{1,3}}){{2}}")


def looks_like_mojibake(text: str) -> bool:
    """Whether a text has characters in UTF-8 that were read byte by byte."""
    return MOJIBAKE.search(text) is not None


def mojibake_warning(name: str, texts: Sequence[str]) -> str | None:
    """A warning that counts such texts in a file, if there are any."""
    if not (count := sum(map(looks_like_mojibake, texts))):
        return None
    return (
        f"warning: {count:,} of {len(texts):,} lines of {name} look like UTF-8 that was read as Latin-1, with Ã¼ in "
        "place of ü. Convert the file."
    )


__all__ = ["looks_like_mojibake", "mojibake_warning"]
