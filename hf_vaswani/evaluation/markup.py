"""Whether translations have the same tags as their references: validity, trees, and BLEU between tags.

Hashimoto et al. 2019, "A High-Quality Multilingual Dataset for Structured Documentation Translation" (section 5.1).
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.parsers import expat

from ..errors import InputError

TAG = re.compile(r"<[^<>]*>")
MOST_ERRORS = 5


@dataclass(frozen=True)
class Structure:
    """The tags of a line, and the texts before, between, and after them.

    Attributes:
        tags: names of elements as they begin, each with "/" as they end.
    """

    tags: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class MarkupScore:
    """Lines whose markup is as it should be.

    Attributes:
        valid: those that are well-formed.
        same_tree: those with the tree of tags that a reference has.
        tagged, tagged_valid, tagged_same_tree: of those where a reference has tags.
        xml_bleu: BLEU of the texts between tags; a line with another tree than the reference counts as empty.
    """

    lines: int
    valid: int
    same_tree: int
    tagged: int
    tagged_valid: int
    tagged_same_tree: int
    xml_bleu: float

    def __str__(self) -> str:
        text = f"markup: {_shares(self.valid, self.same_tree, self.lines)} lines"
        if self.tagged:
            text += f"; {_shares(self.tagged_valid, self.tagged_same_tree, self.tagged)} with tags"
        return f"{text}; XML-BLEU {self.xml_bleu:.2f}"


def _shares(valid: int, same_tree: int, lines: int) -> str:
    return f"{100 * valid / lines:.2f}% valid, {100 * same_tree / lines:.2f}% with the reference's tree, of {lines:,}"


def read_structure(line: str) -> Structure | None:
    """The structure of a line with inline XML; `None` if it is not well-formed. Entities may be unknown."""
    tags: list[str] = []
    texts: list[str] = [""]

    def add(tag: str) -> None:
        tags.append(tag)
        texts.append("")

    def add_text(text: str) -> None:
        texts[-1] += text

    parser = expat.ParserCreate("utf-8")
    parser.UseForeignDTD(True)
    parser.StartElementHandler = lambda name, attributes: add(name)
    parser.EndElementHandler = lambda name: add(f"{name}/")
    parser.CharacterDataHandler = add_text
    parser.SkippedEntityHandler = lambda name, is_parameter: add_text(html.unescape(f"&{name};"))
    try:
        parser.Parse(f"<line>{line}</line>".encode("utf-8", "replace"), True)
    except expat.ExpatError:
        return None
    return Structure(tuple(tags[1:-1]), tuple(texts[1:-1]))


def check_structures(path: str, lines: Sequence[str]) -> None:
    """Raise an `InputError` that names the lines of a file that are not well-formed."""
    if wrong := [number for number, line in enumerate(lines, 1) if read_structure(line) is None]:
        more = f" and {len(wrong) - MOST_ERRORS:,} more" if len(wrong) > MOST_ERRORS else ""
        raise InputError(
            f"{path}: not well-formed inline XML in line {', '.join(map(str, wrong[:MOST_ERRORS]))}{more}. Correct "
            "them (write & as &amp;, < as &lt;), or leave out --markup."
        )


def without_markup(line: str) -> str:
    """The text of a line, with entities as characters, whether or not it is well-formed."""
    structure = read_structure(line)
    text = "".join(structure.texts) if structure else html.unescape(TAG.sub("", line))
    return " ".join(text.split())


def score_markup(
    translations: Sequence[str], references: Sequence[Sequence[str]], tokenize: str | None
) -> MarkupScore:
    """Compare the markup of translations with the references'.

    Args:
        references: one list of lines for each reference; the first decides which lines have tags, and gives the texts
            unless another has the tree of the translation.
        tokenize: sacreBLEU's tokenizer; default: its own.
    """
    from sacrebleu.metrics import BLEU

    counts = [[0, 0], [0, 0], [0, 0]]
    texts: list[str] = []
    expected: list[str] = []
    for translation, *own_references in zip(translations, *references):
        found = read_structure(translation)
        wanted = [structure for structure in map(read_structure, own_references) if structure]
        same = next((one for one in wanted if found and one.tags == found.tags), None)
        is_tagged = bool(wanted and wanted[0].tags)
        for row, holds in zip(counts, (True, found is not None, same is not None)):
            row[0] += holds
            row[1] += holds and is_tagged
        reference = same or wanted[0]
        texts += found.texts if found and same else [""] * len(reference.texts)
        expected += reference.texts
    kept = [number for number, text in enumerate(expected) if text.strip()]
    bleu = BLEU(**({"tokenize": tokenize} if tokenize else {})).corpus_score(
        [texts[number] for number in kept], [[expected[number] for number in kept]]
    )
    (lines, tagged), (valid, tagged_valid), (same_tree, tagged_same_tree) = counts
    return MarkupScore(lines, valid, same_tree, tagged, tagged_valid, tagged_same_tree, bleu.score)
