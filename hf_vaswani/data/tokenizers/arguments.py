"""The recipe section `tokenizer`: its keys, the tokenizer types, and the checks across keys."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from ...configuration.keys import COUNTLESS, Key, Section
from ...configuration.name_hints import hint

# In the order of their ids, which are the defaults in VaswaniConfig.
SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
ROLES = [name.removesuffix("_token") for name in SPECIAL_TOKENS]
BYTE_COUNT = 256
BYTES = [f"<0x{byte:02X}>" for byte in range(BYTE_COUNT)]
# Tokenizers split a bracket from what it encloses, so text can never be mistaken for such a token.
BRACKETED = re.compile(r"<[^\s:]+>|\[[^\s:]+\]|\{[^\s:]+\}|\([^\s:]+\)")
# Besides special tokens and bytes, a vocabulary needs the space and at least one letter.
FEWEST_PIECES = 2
LARGEST_VOCABULARY = 10_000_000


def as_option(value: object) -> Any:
    """Format a value as it is typed on the command line."""
    return str(value).lower() if isinstance(value, bool) else value


@dataclass(frozen=True)
class TokenizerType:
    """What a type of tokenizer has."""

    has_merges: bool = False  # which BPE-dropout can drop
    has_bytes: bool = False  # for characters outside the vocabulary
    has_subwords: bool = True  # whether it splits words into pieces
    has_min_frequency: bool = True  # whether rare pieces or words can be left out


TOKENIZER_TYPES = {
    "bpe": TokenizerType(has_merges=True, has_bytes=True),
    "wordpiece": TokenizerType(),
    "unigram": TokenizerType(has_bytes=True, has_min_frequency=False),
    "word": TokenizerType(has_subwords=False),
}


class TokenizerArguments(Section):
    """How text becomes tokens."""

    section = "tokenizer"

    type: str = Key(
        "bpe",
        "bpe (byte-pair encoding), unigram (language model), wordpiece (longest match first) or word",
        choices=TOKENIZER_TYPES,
    )
    pre_tokenizer: Literal["punctuation", "whitespace", "rules"] = Key(
        "punctuation",
        "where words end. punctuation: at whitespace, punctuation and digits; whitespace: at whitespace only, for "
        "pre-tokenized text (bpe, unigram, wordpiece); rules: don't is do n't, l'homme is l' homme (word)",
    )
    word_boundary: Literal["before", "after"] = Key(
        "before",
        "where subwords mark a space: before words, as in SentencePiece, or after them, as in subword-nmt, "
        "which marks their ends (with pre_tokenizer=whitespace)",
    )
    vocab_size: int = Key(8000, "maximum vocabulary size, special tokens included", ge=1, le=LARGEST_VOCABULARY)
    target_vocab_size: int | None = Key(
        None, "the same for the target, with joint=false; default: vocab_size", ge=1, le=LARGEST_VOCABULARY
    )
    joint: bool = Key(True, "one vocabulary for both languages, or one for each")
    lowercase: bool = Key(False, "lowercase all text")
    normalization: Literal["nfc", "nfkc", "none"] = Key(
        "nfc", "Unicode form of all text: composed letters (nfc), also with wide and other variants unified (nfkc)"
    )
    whitespace: Literal["normalize", "keep"] = Key(
        "normalize",
        "normalize: outer and repeated spaces, kinds of spaces that fewer than 1 of 200 texts have, and soft hyphens "
        "and the like make no difference; keep: all of them stay as they are, for code or poems",
    )
    min_frequency: int | None = Key(
        None,
        "pairs of pieces (bpe, wordpiece) or words (word) seen less often are not learned; default: 2",
        ge=1,
        le=COUNTLESS,
    )
    byte_fallback: bool = Key(False, "characters outside the vocabulary become bytes, not <unk> (bpe, unigram)")
    bpe_dropout: float = Key(0.0, "share of merges dropped at random, in training only (bpe)", ge=0, lt=1)
    special_tokens: dict = Key(
        {}, "other names of special tokens: {pad: '[PAD]', bos: '[SOS]', eos: '[EOS]', unk: '[UNK]'}, or some of them"
    )
    path: str | None = Key(
        None, "folder or Hub id of an existing tokenizer, used unchanged; the keys for a new one are ignored"
    )

    def validate(self) -> list[str]:
        """Errors for keys of this section that conflict."""
        if self.path is not None:
            return []
        errors, kind, traits = [], f"tokenizer.type={self.type}", TOKENIZER_TYPES[self.type]
        if self.bpe_dropout and not traits.has_merges:
            errors.append(f"tokenizer.bpe_dropout={self.bpe_dropout} drops merges, which {kind} does not have")
        if self.byte_fallback and not traits.has_bytes:
            others = " and ".join(name for name, other in TOKENIZER_TYPES.items() if other.has_bytes)
            errors.append(f"tokenizer.byte_fallback=True is for the types {others}, not for {kind}")
        if self.pre_tokenizer == "rules" and traits.has_subwords:
            errors.append(f"tokenizer.pre_tokenizer=rules is for the type word, not for {kind}")
        if self.pre_tokenizer == "whitespace" and not traits.has_subwords:
            errors.append(
                f"tokenizer.pre_tokenizer=whitespace is for subwords, not for {kind}, where words may end without a "
                "space"
            )
        if self.word_boundary == "after" and self.pre_tokenizer != "whitespace":
            errors.append(
                "tokenizer.word_boundary=after is for pre_tokenizer=whitespace, not for "
                f"pre_tokenizer={self.pre_tokenizer}, where a word before punctuation would have no mark"
            )
        if self.min_frequency is not None and not traits.has_min_frequency:
            errors.append(f"tokenizer.min_frequency is not used by {kind}: leave it out")
        if self.target_vocab_size is not None and self.joint:
            errors.append(
                f"tokenizer.target_vocab_size={self.target_vocab_size} needs a separate target vocabulary: "
                "set tokenizer.joint to false"
            )
        errors += self._special_token_errors()
        fixed = len(SPECIAL_TOKENS) + BYTE_COUNT * self.byte_fallback
        for name in ("vocab_size", "target_vocab_size"):
            value = getattr(self, name)
            if value is not None and 1 <= value < fixed + FEWEST_PIECES:
                taken = f"{len(SPECIAL_TOKENS)} special tokens" + f" and {BYTE_COUNT} bytes" * self.byte_fallback
                errors.append(
                    f"tokenizer.{name}={value} is too small: {taken} come first; it must be at least "
                    f"{fixed + FEWEST_PIECES}"
                )
        return errors

    def _special_token_errors(self) -> list[str]:
        errors = []
        for role, token in self.special_tokens.items():
            name = f"tokenizer.special_tokens.{role}"
            if role not in ROLES:
                meant = (
                    hint(str(role).removesuffix("_token"), dict(zip(ROLES, ROLES)))
                    or f"choose from {', '.join(ROLES)}"
                )
                errors.append(f"{name}: unknown role; {meant}")
            elif not isinstance(token, str):
                quotes = "; put it in quotes" if isinstance(token, list) else ""
                errors.append(f"{name} must be text, got {token!r}{quotes}")
            elif not BRACKETED.fullmatch(token) or token in BYTES:
                errors.append(f"{name} must be in brackets and without spaces, such as [PAD] or <pad>, got {token!r}")
        if errors:
            return errors
        tokens = special_tokens(self)
        for token in dict.fromkeys(tokens.values()):
            roles = [name.removesuffix("_token") for name in tokens if tokens[name] == token]
            if len(roles) > 1:
                errors.append(
                    f"tokenizer.special_tokens: {token} is given for {' and '.join(roles)}; they must differ"
                )
        return errors


# The keys that apply to an existing tokenizer.
OF_ANY_TOKENIZER = {"bpe_dropout", "path"}


def keys_of_a_new_tokenizer(arguments: TokenizerArguments) -> list[str]:
    """The keys that apply only to a new tokenizer and are not at their defaults."""
    defaults = TokenizerArguments()
    return [
        name
        for name in TokenizerArguments.model_fields
        if name not in OF_ANY_TOKENIZER and getattr(arguments, name) != getattr(defaults, name)
    ]


def special_tokens(arguments: TokenizerArguments) -> dict[str, str]:
    """The special tokens by role (`pad_token`, `bos_token`, `eos_token`, `unk_token`), in the order of their ids."""
    return SPECIAL_TOKENS | {f"{role}_token": token for role, token in arguments.special_tokens.items()}
