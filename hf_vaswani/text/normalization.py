"""Makes a text what its tokenizer can read: no lone surrogates, and nothing invisible that it does not know."""

import re
from collections.abc import Iterable, Set
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer

from .vocabularies import vocabularies

if TYPE_CHECKING:  # importing it takes seconds, and the command line is parsed before
    from transformers import PreTrainedTokenizerBase


def _characters(*ranges: int | tuple[int, int]) -> str:
    """The characters of code points and of ranges from the first to the last code point."""
    pairs = [(code, code) if isinstance(code, int) else code for code in ranges]
    return "".join(chr(code) for first, last in pairs for code in range(first, last + 1))


# Whitespace in Unicode and in Python, and blank letters (Braille, Hangul).
SPACES = _characters(
    (0x09, 0x0D), (0x1C, 0x20), 0x85, 0xA0, 0x1680, (0x2000, 0x200A), 0x2028, 0x2029, 0x202F, 0x205F, 0x2800, 0x3000,
    0x3164, 0xFFA0,
)  # fmt: skip
# Control and format characters, among them the soft hyphen, the zero-width space and joiner, directions of writing,
# and the byte order mark; but not signs of the category Cf that are visible, such as U+06DD.
FORMATS = _characters(
    (0x00, 0x08), (0x0E, 0x1B), (0x7F, 0x84), (0x86, 0x9F), 0xAD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5,
    0x200B, 0x200E, 0x200F, (0x202A, 0x202E), (0x2060, 0x206F), 0xFEFF, (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), 0xE0001,
)  # fmt: skip
# They select a variant of the character before them: of any, of an emoji, of a Mongolian letter.
SELECTORS = _characters((0xFE00, 0xFE0D), (0xE0100, 0xE01EF))
EMOJI_SELECTORS, MONGOLIAN_SELECTORS = "\ufe0e\ufe0f", _characters((0x180B, 0x180F))
# The name of a region's flag, in letters that are not seen, follows a black flag.
TAGS, FLAG = _characters((0xE0020, 0xE007F)), "\U0001f3f4"
NON_JOINER, JOINER = "\u200c", "\u200d"
INVISIBLE = frozenset(
    SPACES + FORMATS + SELECTORS + EMOJI_SELECTORS + MONGOLIAN_SELECTORS + TAGS + NON_JOINER + JOINER
)
KEYCAP = "\u20e3"
EMOJI = _characters(
    0xA9, 0xAE, 0x203C, 0x2049, 0x2122, 0x2139, (0x2190, 0x21FF), (0x2300, 0x23FF), 0x24C2, (0x25A0, 0x27BF),
    (0x2900, 0x297F), (0x2B00, 0x2BFF), 0x3030, 0x303D, 0x3297, 0x3299, (0x1F000, 0x1FAFF),
)  # fmt: skip
MONGOLIAN = _characters((0x1820, 0x18AA))
# Scripts in which a joiner changes the letters: Arabic and its neighbors, India's scripts, Burmese, Khmer, Mongolian.
JOINING = _characters(
    (0x0600, 0x0DFF), (0x1000, 0x109F), (0x1700, 0x18AF), (0x1A00, 0x1BFF), (0xA800, 0xABFF), (0xFB50, 0xFDCF),
    (0xFDF0, 0xFDFF), (0xFE70, 0xFEFC), (0x10A00, 0x11FFF), (0x1E900, 0x1E95F),
)  # fmt: skip
ANY = r"[\s\S]"


def _class(characters: Iterable[str], known: Set[str] = frozenset()) -> str:
    """A class of a regular expression for characters, without those that are known."""
    codes = sorted(ord(character) for character in set(characters) - known)
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), key=lambda pair: pair[1] - pair[0])]
    members = "".join(chr(run[0]) if len(run) == 1 else f"{chr(run[0])}-{chr(run[-1])}" for run in runs)
    return f"[{members}]" if members else r"[^\s\S]"  # no character, but one that can be repeated


BLANK = f"{_class(INVISIBLE)}*"


def is_blank(text: str) -> bool:
    """Whether nothing in a text is visible."""
    return re.fullmatch(BLANK, text) is not None


def invisible_normalizer(
    known: Set[str] = frozenset(), keeps_start: bool = False, keeps_runs: bool = False
) -> Normalizer:
    """A normalizer that leaves in a text only what is visible, and single spaces within it.

    Spaces of any kind become one space, and none are left at either end. Control and format characters are removed,
    joiners and selectors only where they change nothing visible. What the tokenizer knows stays as it is.

    Args:
        known: characters that are in the tokenizer's vocabulary.
        keeps_start: leave one space at the start of a text that has any, for tokenizers to which it marks a word.
        keeps_runs: keep repeated and outer spaces, for tokenizers that have learned them.
    """
    selector, joining, emoji = _class(EMOJI_SELECTORS, known), _class(JOINING), _class(EMOJI)
    tags, mongolian = _class(TAGS, known), _class(MONGOLIAN_SELECTORS, known)
    # A pattern that begins with the characters to look for is much faster than one that begins by looking back.
    selectors = (
        _class(SELECTORS, known),
        f"{selector}(?<!{emoji}[{EMOJI_SELECTORS}])(?!{KEYCAP})",
        f"{mongolian}(?<!{_class(MONGOLIAN)}[{MONGOLIAN_SELECTORS}])",
        f"{tags}(?<!{_class(FLAG + TAGS)}{tags}){tags}*",
    )
    non_joiner, joiner = _class(NON_JOINER, known), _class(JOINER, known)
    joiners = (
        f"{non_joiner}(?<!{joining}{NON_JOINER})",
        f"{non_joiner}(?!{NON_JOINER}*{joining})",
        f"{joiner}(?<!{joining}{JOINER})(?!{emoji})",
        f"{joiner}(?<!{_class(JOINING + EMOJI + EMOJI_SELECTORS)}{JOINER})",
    )
    other_spaces = _class(SPACES, known | {" "})
    steps = [(f"{_class(FORMATS, known)}+", ""), ("|".join(selectors), ""), ("|".join(joiners), "")]
    if keeps_start:
        # Removing the first characters would hide from the tokenizer that this is where a text begins.
        invisible = _class(INVISIBLE, known - {" "})
        steps.insert(0, (f"{invisible}(?<!{ANY}{invisible}){invisible}*", " "))
    if keeps_runs:
        steps.append((other_spaces, " "))
    else:
        outer = [f" (?!{ANY})"] + [f" (?<!{ANY} )"] * (not keeps_start)
        steps += [(f"{_class(SPACES, known - {' '})}{{2,}}|{other_spaces}", " "), ("|".join(outer), "")]
    return normalizers.Sequence([normalizers.Replace(Regex(pattern), content) for pattern, content in steps])


# The entry in the settings of this package's tokenizers that says how they treat whitespace: "normalize" or "keep".
WHITESPACE = "whitespace"
RUN_OF_SPACES = re.compile("  |▁▁")
# Tokenizer → its number of tokens, and the normalizers of its sources and targets.
_normalizers: "WeakKeyDictionary[PreTrainedTokenizerBase, tuple]" = WeakKeyDictionary()


@cache
def letter_bytes() -> dict[str, int]:
    """Letter in a token of a byte-level vocabulary → the byte that it stands for."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return {letter: byte for byte, letter in bytes_to_unicode().items()}


def clean(text: str) -> str:
    """Make a text valid for any tokenizer: lone surrogates, which no encoding has, become U+FFFD; pairs are joined."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def normalized(text: str, tokenizer: "PreTrainedTokenizerBase", is_target: bool = False) -> str:
    """Remove from a text what is invisible and the tokenizer does not know, see [`invisible_normalizer`].

    Tokenizers trained by this package say in their settings that they normalize texts themselves, or keep whitespace.

    Args:
        text: without lone surrogates, see [`clean`].
        is_target: whether it is a target, for which the tokenizer may have another vocabulary.
    """
    if WHITESPACE in getattr(tokenizer, "init_kwargs", {}):
        return text
    size, *sides = _normalizers.get(tokenizer, (0,))
    if size != len(tokenizer):  # new, or with more tokens than before
        sides = [outer_normalizer(tokenizer, vocabulary) for vocabulary in vocabularies(tokenizer)]
        _normalizers[tokenizer] = (len(tokenizer), *sides)
    return sides[is_target].normalize_str(text)


def outer_normalizer(tokenizer: "PreTrainedTokenizerBase", vocabulary: Iterable[str]) -> Normalizer:
    """The normalizer for the texts of a tokenizer that has none of its own, by the tokens that it has."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if "ByteLevel" in f"{backend and backend.pre_tokenizer} {backend and backend.decoder}":
        byte_of = letter_bytes()
        in_bytes = ([byte_of.get(letter, 0) for letter in token] for token in vocabulary)
        vocabulary, handled = [bytes(token).decode(errors="ignore") for token in in_bytes], set()
    else:
        handled = _find_handled(tokenizer)
    known = INVISIBLE.intersection("".join(vocabulary)) | handled
    return invisible_normalizer(known, keeps_runs=any(map(RUN_OF_SPACES.search, vocabulary)))


def _find_handled(tokenizer: "PreTrainedTokenizerBase") -> set[str]:
    """The invisible characters that a tokenizer itself reads as a space or as nothing, as SentencePiece does."""
    spaced, joint = tokenizer.tokenize("a b"), tokenizer.tokenize("ab")
    if tokenizer.unk_token in (*spaced, *joint):
        return set()
    return {
        character
        for character in SPACES + FORMATS
        if tokenizer.tokenize(f"a{character}b") in (spaced, joint)
        and all(
            tokenizer.tokenize(text) == spaced for text in (f"{character}a b", f"a {character}b", f"a b{character}")
        )
    } - {" "}
