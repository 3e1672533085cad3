"""Splits long texts into pieces that a model can take, at sentence ends where possible, and joins the translations."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

# Closing quotation marks and brackets, marks of footnotes, and emoji belong to the sentence before them; French has a
# space before its own marks.
CLOSING = (
    r"(?:[\"'”’»)\]」』】）》*¹²³⁰⁴-⁹]|“(?!\w)|[ \u00a0\u202f]»(?!\w)|\[[0-9]{1,3}\]"
    r"| ?[\u200d\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])*"
)
# Invisible characters that may follow a mark, as in Hebrew and Arabic; and letters that look like spaces.
UNSEEN = r"[\x00-\x08\x0e-\x1b\x7f-\x84\xad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]*"
SPACE = r"[\s\u2800\u3164\uffa0]"
OPENING = re.compile(r"[\s\"'“„‚‘”«»‹(\[{¿¡—–\-•*]*")
# The first group is a mark that has other uses, too; scripts with marks of their own need no space after them.
SENTENCE_END = re.compile(rf"([.!?…]+)({CLOSING}){UNSEEN}({SPACE}*)|[。！？｡．؟۔।॥։።។။]+{CLOSING}{UNSEEN}{SPACE}*")
LAST_WORD = re.compile(r"[\w.:,’']*$")
ADDRESS = re.compile(r"(www|[@/\\])\S*$")
CONTINUING = "，、；：,;:،؛"  # after a quotation
QUOTATION = re.compile("[」』][とっ]")  # followed by the words of its speaker
ROMAN_NUMBER = re.compile("[IVX]{2,}")
# From this share of training sources with several sentences on, a model has learned to translate such texts.
ENOUGH_MULTI_SENTENCE = 0.1
LOOKED_BACK = 40  # characters before a mark
ABBREVIATIONS = re.compile(
    "al|approx|ave|blvd|bspw|bzw|ca|capt|cf|col|cpt|dept|dr|dra|evtl|fr|ft|geb|gen|gest|ggf|gov|hon|hr|hrn|ing|inkl|jr|lt|"
    "maj|mgr|mio|mlle|mme|mr|mrd|mrs|ms|mt|prof|rep|rev|sen|sgt|sig|sog|sr|sra|srta|st|str|tel|univ|vgl|vs|zzgl",
    re.IGNORECASE,
)
# Abbreviations only before a number.
BEFORE_NUMBERS = re.compile(
    "abb|abs|apr|art|aug|bd|ch|dec|dez|eq|feb|fig|jan|jul|jun|kap|mar|nos?|nov|nr|oct|okt|pp|sec|sept?|tab|vol",
    re.IGNORECASE,
)
# Words that begin a sentence even after "D.C." or "at 18.", and what is before such a period.
STARTERS = re.compile(r"(Er|Es|Ich|Sie|Wir|Das|He|I|It|She|The|They|This|We|You|Elles?|Ils?|Nous|Vous)\b")
BEFORE_STARTERS = re.compile(r"([A-Z]\.[A-Z]|\w [0-9IVX]+)$")
# Where a sentence may be split: clause ends, whitespace.
DIVISIONS = tuple(re.compile(pattern) for pattern in (rf"[,;:–—،؛፣፤]{CLOSING}\s+|[，、；：]{CLOSING}\s*", r"\s+"))
SENTENCES, CHARACTERS = 0, len(DIVISIONS) + 1
# Chinese, Japanese, their punctuation and full-width forms: there is no space between sentences.
SPACELESS = re.compile(r"[\u2e80-\u30ff\u31c0-\u9fff\uf900-\ufaff\uff00-\uff65]")
LINE_BREAK = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Piece(NamedTuple):
    """A part of a text, and the whitespace that follows it."""

    text: str
    space: str = ""


def split_text(
    text: str, fits: Callable[[str], bool], packs: bool = True, last_level: int = CHARACTERS
) -> list[Piece]:
    """Split a text into pieces that fit, without line breaks inside.

    A line is split at sentence ends. A sentence that does not fit is split at the ends of clauses, then at whitespace,
    then between characters.

    Args:
        fits: whether a piece is short enough.
        packs: put as many sentences into a piece as fit, instead of one.
        last_level: `SENTENCES` leaves sentences whole, even if they do not fit.

    Returns:
        The pieces, which make up the text again; the first one is empty if the text begins with whitespace.
    """
    texts, spaces = [""], [[""]]
    for line in text.splitlines(keepends=True):
        for whole in [line] if packs else split_sentences(line):
            for part in _pack(whole, fits, SENTENCES, last_level):
                content = part.strip()
                before, _, after = part.partition(content) if content else (part, "", "")
                spaces[-1].append(before)
                if content:
                    texts.append(content)
                    spaces.append([after])
    pieces = [Piece(content, "".join(space)) for content, space in zip(texts, spaces)]
    return pieces[1:] if len(pieces) > 1 and not pieces[0].space else pieces


def split_like_training_text(
    text: str,
    longest: int | None,
    multi_sentence_share: float | None,
    length: Callable[[str], int],
    is_blank: Callable[[str], bool] = str.isspace,
) -> list[Piece]:
    """A text of several sentences in pieces like the sources that a model was trained on; any other text whole.

    If few of these had several sentences, or this is unknown, each sentence is a piece. Whitespace around the text is
    dropped, as it is for a single sentence.

    Args:
        longest: the number of tokens in the longest of these sources, if known.
        multi_sentence_share: the share of them that have several sentences, if known.
        length: returns the number of tokens in a text.
        is_blank: whether nothing in a piece is to be translated.
    """
    text = text.strip()
    pieces = split_text(text, lambda part: True, packs=False, last_level=SENTENCES)
    if sum(not is_blank(piece.text) for piece in pieces if piece.text) < 2:
        return [Piece(text)]
    if longest is None or (multi_sentence_share or 0) < ENOUGH_MULTI_SENTENCE:
        return pieces
    if length(text) <= longest:
        return [Piece(text)]
    return split_text(text, lambda part: length(part) <= longest, last_level=SENTENCES)


def split_sentences(line: str) -> list[str]:
    """Split a line into sentences, each with the whitespace after it.

    A sentence ends at a mark such as `.`, `!`, `?`, `…` or `。`, and the quotation marks and brackets that close after
    it, if no lowercase letter follows. A period does not end it after an initial, an abbreviation, or a number of one
    or two digits: "J. Smith", "z. B.", "am 3. Mai".
    """
    is_lowercased = line == line.lower()
    matches = (match for match in SENTENCE_END.finditer(line) if match.end() < len(line))
    ends = [match.end() for match in matches if _ends_sentence(match, is_lowercased)]
    parts = pairwise([0, *ends, len(line)])
    # Marks alone belong to the sentence before them.
    starts = [start for start, end in parts if start == 0 or re.search(r"\w", line[start:end])]
    return [line[start:end] for start, end in pairwise([*starts, len(line)])]


def _ends_sentence(match: re.Match, is_lowercased: bool) -> bool:
    """Whether a mark ends a sentence, judging by the words around it; in lowercased text, any letter may begin one."""
    line, mark, end = match.string, match[1], match.end()
    looked_back = line[max(0, match.start() - LOOKED_BACK) : match.start()]
    before = LAST_WORD.search(looked_back)[0]
    if mark is None:  # numbers with full-width marks, and quotations after which the sentence continues
        is_number = before[-1:].isdigit() and line[end].isdigit()
        return not (is_number or line[end] in CONTINUING or QUOTATION.match(line[end - 1 : end + 1]))
    following = OPENING.match(line, end).end()
    after = line[following : following + 2]
    if not after or (after[0].islower() and not is_lowercased):
        return False
    if not match[3] and not _lacks_space(match, before, after):
        return False
    word = before.rpartition(".")[2]
    if mark != "." or match[2] or before.endswith(("a.m", "p.m")):
        return True
    if STARTERS.match(line, following) and BEFORE_STARTERS.search(looked_back):
        return True
    is_abbreviation = ABBREVIATIONS.fullmatch(word) or (after[0].isdigit() and BEFORE_NUMBERS.fullmatch(word))
    is_initial = len(word) == 1 and word.lower() != word.upper()
    is_number = ROMAN_NUMBER.fullmatch(word) or (before.isdigit() and len(before) < 3)
    return not (is_abbreviation or is_initial or is_number)


def _lacks_space(match: re.Match, before: str, after: str) -> bool:
    """Whether only the space is missing after a mark, as in "Yes.It is", unlike in names of files and addresses."""
    is_address = ADDRESS.search(match.string[max(0, match.start() - LOOKED_BACK) : match.start()])
    if is_address or not after[0].isalpha() or after[0].islower() or after[1:] == "." or after[1:].isupper():
        return False
    letters = before[-2:]
    return match[1] != "." or (len(letters) == 2 and letters.isalpha() and letters == letters.lower())


def join_texts(translations: list[str], pieces: list[Piece]) -> str:
    """Join the translations of the pieces of one text.

    Whitespace between them is kept from the text, except that sentences within a line get one space between them,
    or none in Chinese and Japanese.
    """
    joined, space = "", ""
    for translation, piece in zip(translations, pieces):
        translation = translation.strip()
        joined += (_separator(joined, space) if translation else "") + translation
        if translation:
            space = piece.space
        elif not piece.text or LINE_BREAK.search(piece.space):
            space += piece.space
    return joined + (space if LINE_BREAK.search(space) else "")


def _separator(joined: str, space: str) -> str:
    """What to put between a translation and the next one, given the whitespace between their sources."""
    if not joined or LINE_BREAK.search(space):
        return space
    if SPACELESS.match(joined[-1]):
        return ""
    return space if space.strip("\u3000") else " "


def _pack(text: str, fits: Callable[[str], bool], level: int, last_level: int) -> list[str]:
    """Split a text into parts that fit, each with the whitespace around it."""
    if fits(text.strip()):
        return [text]
    parts = _divide(text, level)
    packed, start = [], 0
    while start < len(parts):
        count = _longest_fit(parts, start, fits)
        if count == 0 and level < last_level:
            packed += _pack(parts[start], fits, level + 1, last_level)
        else:  # a single character that does not fit stays alone
            packed.append("".join(parts[start : start + max(count, 1)]))
        start += max(count, 1)
    return packed


def _divide(text: str, level: int) -> list[str]:
    """Split a text into parts: sentences, then by `DIVISIONS`, then characters."""
    if level == SENTENCES:
        return split_sentences(text)
    if level == CHARACTERS:
        return list(text)
    ends = [0, *(match.end() for match in DIVISIONS[level - 1].finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(ends) if start < end]


def _longest_fit(parts: list[str], start: int, fits: Callable[[str], bool]) -> int:
    """How many parts from `start` on fit together: doubled until they do not, then narrowed down by bisection."""

    def fit(count: int) -> bool:
        return fits("".join(parts[start : start + count]).strip())

    available = len(parts) - start
    good, bad = 0, 1
    while bad <= available and fit(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, available + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fit(middle) else (good, middle)
    return good


__all__ = ["SENTENCES", "Piece", "join_texts", "split_like_training_text", "split_sentences", "split_text"]
