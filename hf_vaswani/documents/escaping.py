"""How a format writes characters that it cannot write as themselves: entities, backslashes, and the like."""

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

NEVER = re.compile(r"(?!)")


@dataclass(frozen=True)
class Escaping:
    r"""The escapes of a format.

    Attributes:
        escape: matches an escape, such as `&amp;` or `\n`.
        decode: the character that an escape stands for; the escape itself if it is unknown, and stays as it is.
        always: characters that must be escaped, and how.
        usually: characters that are escaped unless the source has them as themselves.
        unwritable: spells a character that is not ASCII, for files that hold nothing else.
    """

    escape: re.Pattern[str] = NEVER
    decode: Callable[[str], str] = str
    always: Mapping[str, str] = field(default_factory=dict)
    usually: Mapping[str, str] = field(default_factory=dict)
    unwritable: Callable[[str], str] | None = None

    def read(self, raw: str) -> str:
        """The text that is meant."""
        return self.escape.sub(lambda match: self.decode(match[0]), raw)

    def read_places(self, raw: str) -> tuple[str, Sequence[int]]:
        """The text that is meant, and where each of its characters, and its end, is in the original."""
        parts: list[str] = []
        places: list[int] = []
        done = 0
        for match in self.escape.finditer(raw):
            start, end = match.span()
            parts += [raw[done:start], meant := self.decode(match[0])]
            places += range(done, start)
            places += range(start, end) if meant == match[0] else [start] * len(meant)
            done = end
        places += range(done, len(raw) + 1)
        return "".join([*parts, raw[done:]]), [0, *places[1:]]  # an escape of nothing belongs to what is before it

    def table(self, sources: Iterable[str] = ()) -> dict[int, str]:
        """Characters that are not written as themselves, for `str.translate`.

        Args:
            sources: text of the original, whose escaping of a character is kept.
        """
        table = {**self.usually}
        for raw in sources:
            for character in set(self.escape.sub("", raw)):
                table.pop(character, None)
        table |= self.always
        for raw in sources:
            table |= {self.decode(match[0]): match[0] for match in self.escape.finditer(raw)}
        return _Table({ord(c): spelled for c, spelled in table.items() if len(c) == 1}, self.unwritable)


class _Table(dict[int, str]):
    """A table for `str.translate`, with a function for all other characters that are not ASCII."""

    def __init__(self, spelled: Mapping[int, str], unwritable: Callable[[str], str] | None):
        super().__init__(spelled)
        self._unwritable = unwritable

    def __missing__(self, code: int) -> str:
        if self._unwritable is None or code < 128:
            raise KeyError(code)  # it stays as it is
        return self._unwritable(chr(code))


def _json_decode(escape: str) -> str:
    try:
        character = json.loads(f'"{escape}"')
    except ValueError:
        return escape
    return escape if "\ud800" <= character <= "\udfff" else character  # half of a character


def json_escape(character: str) -> str:
    r"""A character as JSON writes it in ASCII: `\u00fc`, and two of these for those beyond `\uffff`."""
    return json.dumps(character)[1:-1]


ENTITY = r"&(?:#[0-9]{1,20}|#[xX][0-9a-fA-F]{1,20}|[A-Za-z][\w.:-]*);"
PLAIN = Escaping()
MARKUP = Escaping(re.compile(ENTITY), html.unescape, {"&": "&amp;", "<": "&lt;"}, {">": "&gt;"})
# Within quotation marks, by the mark.
QUOTED = {
    mark: replace(MARKUP, always={**MARKUP.always, mark: spelled})
    for mark, spelled in (('"', "&quot;"), ("'", "&#39;"))
}
JSON = Escaping(
    re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[0-9a-fA-F]{4}|\\[^u]"),
    _json_decode,
    {character: json_escape(character) for character in [*map(chr, range(32)), '"', "\\"]},
)
