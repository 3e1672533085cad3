"""The space of a search: for each recipe key, a range of numbers or a list of values to choose from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .grid import split_values

RANGE = re.compile(r"\s*([^,\[{'\"]+?)\.\.([^,]+?)\s*")
# A range that spans at least this factor is searched on a logarithmic scale.
WIDE = 10


@dataclass(frozen=True)
class Range:
    """A range of numbers, including both ends.

    Attributes:
        is_whole: whether the range has whole numbers only.
    """

    low: float
    high: float
    is_whole: bool

    @property
    def is_log(self) -> bool:
        """Whether the range is searched on a logarithmic scale."""
        return self.low > 0 and self.high >= WIDE * self.low

    @property
    def ends(self) -> list[str]:
        """The lowest and the highest number, as texts."""
        return [self.text(self.low), self.text(self.high)]

    def value(self, text: str) -> float | None:
        """The number that a text stands for; `None` if that is not a number in this range."""
        try:
            value = int(text) if self.is_whole else float(text)
        except ValueError:
            return None
        return value if self.low <= value <= self.high else None

    def text(self, value: float) -> str:
        """A number as on the command line, with three significant digits; the ends are not rounded."""
        if self.is_whole:
            return str(round(value))
        return repr(min(max(float(f"{value:.3g}"), self.low), self.high))


@dataclass(frozen=True)
class Choice:
    """A list of values, as on the command line."""

    values: list[str]

    @property
    def ends(self) -> list[str]:
        """All values, since they have no order."""
        return self.values

    def value(self, text: str) -> str | None:
        """The text itself if it is one of the values; otherwise `None`."""
        return text if text in self.values else None

    def text(self, value: str) -> str:
        return value


Space = dict[str, Range | Choice]


def parse_space(texts: Mapping[str, str | list[str]], where: str, errors: list[str]) -> Space:
    """The space from `key` → `low..high`, `value,value`, or a list. Invalid entries become errors, and are left out.

    Args:
        where: the origin of the texts, for the errors.
    """
    space: Space = {}
    for key, text in texts.items():
        if isinstance(text, str) and (match := RANGE.fullmatch(text)):
            found = _range(*match.groups())
            if isinstance(found, str):
                errors.append(f"{where} {key}={text}: {found}")
            else:
                space[key] = found
            continue
        values = split_values(text) if isinstance(text, str) else text
        if len(set(values)) < 2 or "" in values:
            errors.append(
                f"{where} {key}={text}: write a range, such as {key}=0.1..0.3, or at least two values, separated by "
                "commas"
            )
        else:
            space[key] = Choice(list(dict.fromkeys(values)))
    return space


def corners(space: Space) -> list[dict[str, str]]:
    """Combinations that together cover both ends of each range, and each value of each list."""
    values = {key: part.ends for key, part in space.items()}
    number = max((len(texts) for texts in values.values()), default=1)
    return [{key: texts[min(row, len(texts) - 1)] for key, texts in values.items()} for row in range(number)]


def holds(space: Space, values: dict[str, str]) -> bool:
    """Whether a combination lies in this space."""
    return space.keys() == values.keys() and all(part.value(values[key]) is not None for key, part in space.items())


def _range(low: str, high: str) -> Range | str:
    """A range from its ends, or what is wrong with it."""
    is_whole = all(re.fullmatch(r"[-+]?\d+", end.strip()) for end in (low, high))
    try:
        ends = [int(end) if is_whole else float(end) for end in (low, high)]
    except ValueError:
        return "the ends of a range must be numbers, such as 0.1..0.3"
    if not all(abs(end) < float("inf") for end in ends) or not ends[0] < ends[1]:
        return "a range must begin with its lower end, such as 0.1..0.3"
    return Range(ends[0], ends[1], is_whole)
