"""What stands out in a text that was cleaned, for somebody who does not know it, and what to do about it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from ..errors import counted
from .compare import Difference, group_spellings, shown_group
from .repairs import SHOWN as REPAIRED
from .repairs import SIDES
from .rules import REASONS
from .spelling import changes_to, has_units, two_spellings

# The least share of pairs that is worth a word.
LEAST_SHARE = 0.01
# What is repaired, and what may be as it should be, counts less than what trains badly.
REPAIRED_WEIGHT, UNLIKE_WEIGHT = 0.2, 0.15
MOST_FLAWS, MOST_DIFFERENCES, EXAMPLES = 8, 3, 4
# The share of a side's words in the other language that is much.
MUCH_MIXED = 0.2
# Around a passage that is quoted.
MARKS = ' .,;:!?"“”()'
# Kind of a difference → title and remedy.
UNLIKE = {
    "spelling": (
        "The test text uses other letters",
        "They are no variants of others, which an option would mend: find text that is spelled like the test text.",
    ),
    "punctuation": (
        "The test text uses other punctuation",
        "A model copies the punctuation of its training text: if you want that of the test text, make both alike.",
    ),
    "case": (
        "The test text uses capitals differently",
        "A model copies the capitals of its training text: if you want those of the test text, make both alike.",
    ),
    "length": (
        "Lines of the test text have another length",
        "Models do poorly on lengths that they rarely saw in training: add text with such lines.",
    ),
    "words": (
        "The test text uses other words",
        "Add text on the topics of the test text, or judge the model by a test text on those of the training text.",
    ),
}


@dataclass(frozen=True)
class Flaw:
    """Something about a text that its reader should know.

    Attributes:
        weight: how much of the text it concerns, from 0 to 1.
        title, text: what it is.
        remedy: what to do about it, with options in backticks.
    """

    weight: float
    title: str
    text: str
    remedy: str


def weightiest(flaws: Iterable[Flaw]) -> list[Flaw]:
    """The flaws to show, the weightiest first."""
    found = [flaw for flaw in flaws if flaw.weight >= LEAST_SHARE]
    return sorted(found, key=lambda flaw: (-flaw.weight, flaw.title))[:MOST_FLAWS]


def left_out(read: int, kept: int, reasons: Mapping[str, int]) -> list[Flaw]:
    """Pairs that were left out, by reason."""
    counts = {name: count for name, count in reasons.items() if name != "near_duplicate"}
    repeated = sum(reasons.get(name, 0) for name in ("duplicate", "near_duplicate"))
    if repeated:
        counts["duplicate"] = repeated
    flaws = []
    for name, count in counts.items():
        title = "Repetitions" if name == "duplicate" else _sentence(REASONS[name])
        names = ("duplicate", "near_duplicate") if name == "duplicate" else (name,)
        what, remedy = "were left out", f"`--keep_reasons {' '.join(names)}` keeps them."
        if name == "duplicate":
            what = "repeat an earlier pair"
            remedy = f"They were left out; {kept:,} pairs are left to learn from. {remedy}"
        if name == "score":
            remedy = "Look at the examples: if good pairs are among them, lower `--min_score`."
        elif name == "swapped":
            remedy = "`--swap_sides` swaps them back."
        elif name == "test":
            remedy = "A test on lines that a model was trained on would say little."
        share = count / max(read, 1)
        flaws.append(Flaw(share, title, f"{count:,} of {read:,} pairs ({share:.0%}) {what}.", remedy))
    return flaws


def repaired(read: int, repairs: Mapping[str, int]) -> list[Flaw]:
    """Pairs that were repaired, by repair."""
    return [
        Flaw(
            REPAIRED_WEIGHT * count / max(read, 1), _sentence(REPAIRED[name]),
            f"{count:,} of {read:,} pairs ({count / max(read, 1):.0%}) had them.",
            "They were swapped back."
            if name == SIDES
            else f"They were repaired; `--no_repairs {name}` leaves them as they are.",
        )
        for name, count in repairs.items()
    ]  # fmt: skip


def spelled_in_two_ways(side: str, lines: Sequence[str], test: Sequence[str], file: str | None) -> list[Flaw]:
    """A side that writes the same in two ways.

    Args:
        lines: of the side, as they were kept.
        test: text that is spelled as wanted, if there is any.
        file: its path.
    """
    found = two_spellings(lines)
    changes = changes_to(lines, test) if test else {}
    other = set(changes) or {each.rare for each in found}
    share = sum(has_units(line, other) for line in lines) / max(len(lines), 1)
    if not found or not other:
        return []
    ways = "; ".join(map(shown_group, group_spellings(found)))
    text = f"These are used interchangeably: {ways}. "
    if changes:
        wanted = " ".join(sorted(set(changes.values())))
        text += f"{share:.0%} of the lines have words that the test text spells with {wanted}."
    else:
        text += f"{share:.0%} of the lines have the rarer ones."
    remedy = f"Add `--like_{side} {quote(file or 'FILE')}`" + (
        "" if file else ", which names a text in the spelling you want"
    )
    return [Flaw(share, f"Two spellings in the {side}", text, f"{remedy}: this spells the {side} like that file.")]


def mixed(side: str, count: int, whole: int, kept: int, passages: Sequence[str], much: int | None) -> list[Flaw]:
    """A side that has passages in the language of the other.

    Args:
        count: kept pairs with such passages.
        whole: pairs that were left out, since they are in the other language as a whole.
        passages: some of those in pairs that were kept.
        much: kept pairs with more than [`MUCH_MIXED`] of their words in them; `None` if there is a limit.
    """
    other = "source" if side == "target" else "target"
    share = count / max(kept, 1)
    if not count:
        return []
    quoted = ", ".join(f"“{passage.strip(MARKS)}”" for passage in passages[:EXAMPLES])
    text = (
        f"{count:,} of the {kept:,} pairs that were kept ({count / kept:.0%}) have three or more such words in a row "
        f"in the {side}: {quoted}."
    )
    if whole:
        text += f" {whole:,} more were left out, as their {side} is entirely in that language."
    remedy = "Names are harmless, untranslated passages are not: " + (
        "lower `--max_mixed`."
        if much is None
        else f"`--max_mixed {MUCH_MIXED}` leaves out {counted(much, 'pair')} with more such words than that."
    )
    return [Flaw(share, f"Words of the {other}'s language in the {side}", text, remedy)]


def unlike_test(differences: Mapping[str, Iterable[Difference]]) -> list[Flaw]:
    """What the text and its test text differ in, by kind, except for two spellings of the same.

    Args:
        differences: of each side.
    """
    found = [(side, each) for side, own in differences.items() for each in own if not each.is_of_two]
    flaws = []
    for kind, (title, remedy) in UNLIKE.items():
        own = sorted((pair for pair in found if pair[1].kind == kind), key=lambda pair: -pair[1].weight)
        if own:
            text = "; ".join(f"{side}: {each.text}" for side, each in own[:MOST_DIFFERENCES])
            flaws.append(Flaw(UNLIKE_WEIGHT * own[0][1].weight, title, f"{_sentence(text)}.", remedy))
    return flaws


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
