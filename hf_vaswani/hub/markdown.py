"""Any text as Markdown that shows it as it is, and as literals in the code that cards show."""

import html
import json
import re
import unicodedata
from collections.abc import Sequence

from ..text.language_marks import GROUP_MARK, without_mark
from ..text.languages import MOST_NAMED, LanguagePair

# What begins markup in Markdown, including GitHub's tables and strikethrough, and formulas (GitHub's and the Hub's).
MARKUP = re.compile(r"([\\`*_\[\]|~$])")
# Line ends of all kinds, tabs and other control characters.
BREAKS = re.compile("[\\x00-\\x20\\x7f-\\x9f\u2028\u2029]+")
# Direction marks that affect text beyond the one in which they stand.
DIRECTIONS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
ISOLATE, END_OF_ISOLATE = "\u2068", "\u2069"
# What JSON does not escape but a reader of code cannot see, or sees in another order: control characters, line ends
# and direction marks; and surrogates, which no file can hold.
UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
CODE = """\
import hf_vaswani
from transformers import pipeline

translator = pipeline("translation", model={model})
print(translator({arguments})[0]["translation_text"])"""


def one_line(text: str) -> str:
    """A text on a single line; right-to-left text is isolated from the text around it."""
    text = BREAKS.sub(" ", text.translate(DIRECTIONS)).strip()
    text = text.encode("utf-8", "replace").decode()
    is_right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)
    return f"{ISOLATE}{text}{END_OF_ISOLATE}" if is_right_to_left else text


class Markdown(str):
    """Text that is Markdown already, so that it is not escaped again."""


def plain(text: object) -> Markdown:
    """A text or number, escaped for the middle of a line or for a table cell; Markdown as it is."""
    if isinstance(text, Markdown):
        return text
    text = MARKUP.sub(r"\\\1", one_line(str(text)))
    return in_html(text)


def in_html(text: str) -> Markdown:
    """A text in an HTML element, where Markdown has no markup."""
    return Markdown(html.escape(text, quote=False))


def table(header: list[str], rows: list[list[str]]) -> Markdown:
    """A table in Markdown.

    Args:
        header, rows: their cells; those that are not [`Markdown`] are escaped.
    """
    lines = [header, ["---"] * len(header), *rows]
    return Markdown("\n".join("| " + " | ".join(map(plain, cells)) + " |" for cells in lines))


def code(text: str) -> Markdown:
    """Code in the middle of a line."""
    fence = "`" * (_longest_run(text) + 1)
    space = " " if len(fence) > 1 else ""
    return Markdown(f"{fence}{space}{one_line(text)}{space}{fence}")


def fenced(text: str, language: str) -> Markdown:
    """A code block, between fences longer than any run of backticks in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return Markdown(f"{fence}{language}\n{text}\n{fence}")


def _longest_run(text: str) -> int:
    """The number of backticks in the longest run of them."""
    return max((len(run) for run in re.findall("`+", text)), default=0)


def usage_code(model: str, text: str = "…", translation: str | None = None, target: str | None = None) -> str:
    """Code that prints the translation of a text, which a comment shows if it is given.

    Args:
        model: folder or Hub id.
        text: may begin with the mark of its target language, as the sources of a model for several do.
        target: a target language, if the model has several; the mark counts more.
    """
    shown = "" if translation is None else f"\n# {in_comment(translation)}"
    arguments = quoted(without_mark(text))
    if target := mark[1] if (mark := GROUP_MARK.match(text)) else target:
        arguments += f", tgt_lang={quoted(target)}"
    return CODE.format(model=quoted(model), arguments=arguments) + shown


def several_targets(pairs: Sequence[LanguagePair]) -> list[str]:
    """The target languages of a model for several; empty for others."""
    targets = list(dict.fromkeys(target for _, target in pairs if target))
    return targets if len(targets) > 1 else []


def direction_words(languages: Sequence[str], pairs: Sequence[LanguagePair] = ()) -> str:
    """What a model translates, as in `from de to en`; empty if that is not known."""
    names = [f"{plain(source)} to {plain(target)}" for source, target in pairs]
    if not names and len(languages) == 2:
        names = [" to ".join(map(plain, languages))]
    if len(names) > MOST_NAMED:
        return f"in {len(names)} directions between {', '.join(map(plain, languages))}"
    return f"from {', '.join(names)}" if names else ""


def in_comment(translation: str) -> str:
    """A translation as a comment, which ends with its line; texts of a test set may have several."""
    return " ".join(translation.split()) or "(nothing)"


def quoted(text: str) -> str:
    """Text as a string literal of Python and of JavaScript."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
