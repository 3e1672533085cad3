"""Keys of a recipe about data and tokenizers, and what contradicts what among them.

Every key is a field with its meaning in its metadata; help is made from these.
"""

import difflib
import math
import re
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ...files import type_errors

# In the order of their ids, which are the defaults of VaswaniConfig.
SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
ROLES = [name.removesuffix("_token") for name in SPECIAL_TOKENS]
BYTE_COUNT = 256
BYTES = [f"<0x{byte:02X}>" for byte in range(BYTE_COUNT)]
# No tokenizer leaves a bracket in one piece with what it encloses, so that no text can be taken for such a token.
BRACKETED = re.compile(r"<[^\s:]+>|\[[^\s:]+\]|\{[^\s:]+\}|\([^\s:]+\)")
# A vocabulary needs the space and one letter besides special tokens and bytes.
FEWEST_PIECES = 2
LARGEST_VOCABULARY = 10_000_000
# Of what is counted: more than any training does, so that it stands for "never" or "all" as well.
COUNTLESS = 10**12


@dataclass(frozen=True)
class Bounds:
    """The numbers that a key can have. Generous: what lies outside is a slip, and ends in a crash or without an end.

    Attributes:
        least, most: both allowed.
        above, below: not allowed themselves, in place of `least` and `most`.
    """

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def error(self, name: str, value: float) -> str | None:
        """What is wrong with a value; `None` where it is within."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{name} must be a number, got {value!r}"
        if value >= self.least and value > self.above and value <= self.most and value < self.below:
            return None
        return f"{name} must be {self._words(value)}, got {value}"

    def _words(self, value: float) -> str:
        if self.least > -math.inf and self.below < math.inf:
            return f"in [{self.least}, {self.below})"
        if self.least > -math.inf:
            return f"at most {self.most:,}" if value > self.most else f"at least {self.least:,}"
        return f"above {self.above} and " + (
            f"at most {self.most:,}" if self.most < math.inf else f"below {self.below}"
        )


def key(default: Any, help: str, **bounds: float) -> Any:
    """A recipe key with its default and its meaning; `bounds` are those of [`Bounds`], for numbers."""
    metadata = {"help": help, "bounds": Bounds(**bounds)} if bounds else {"help": help}
    if isinstance(default, (dict, list)):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def bound_errors(section: str, arguments: Any) -> list[str]:
    """The numbers of a section that lie outside of their bounds; of lists, each number."""
    errors = []
    for item in fields(arguments):
        value, bounds = getattr(arguments, item.name), item.metadata.get("bounds")
        for number in value if isinstance(value, list) else [value]:
            if bounds and number is not None and (error := bounds.error(f"{section}.{item.name}", number)):
                errors.append(error)
    return errors


def as_option(value: Any) -> Any:
    """A value as it is typed on the command line."""
    return str(value).lower() if isinstance(value, bool) else value


@dataclass
class TokenizerArguments:
    """How text becomes tokens."""

    type: Literal["bpe", "unigram", "wordpiece", "word"] = key(
        "bpe", "bpe (byte-pair encoding), unigram (language model), wordpiece (longest match first) or word"
    )
    pre_tokenizer: Literal["punctuation", "whitespace", "rules"] = key(
        "punctuation",
        "where words end. punctuation: at white space, punctuation and digits; whitespace: at white space alone, for "
        "text that is split into words (bpe, unigram, wordpiece); rules: don't is do n't, l'homme is l' homme (word)",
    )
    word_boundary: Literal["before", "after"] = key(
        "before",
        "where subwords mark a space: before words, as in SentencePiece, or after them, as in subword-nmt, "
        "which marks their ends (with pre_tokenizer=whitespace)",
    )
    vocab_size: int = key(
        8000, "most tokens of a vocabulary, special tokens included", least=1, most=LARGEST_VOCABULARY
    )
    target_vocab_size: int | None = key(
        None, "the same for the target, with joint=false; default: vocab_size", least=1, most=LARGEST_VOCABULARY
    )
    joint: bool = key(True, "one vocabulary for both languages, or one for each")
    lowercase: bool = key(False, "lowercase all text")
    normalization: Literal["nfc", "nfkc", "none"] = key(
        "nfc", "Unicode form of all text: composed letters (nfc), wide and other variants unified, too (nfkc)"
    )
    min_frequency: int | None = key(
        None,
        "pairs of pieces (bpe, wordpiece) or words (word) seen less often are not learned; default: 2",
        least=1,
        most=COUNTLESS,
    )
    byte_fallback: bool = key(False, "characters outside the vocabulary become bytes, not <unk> (bpe, unigram)")
    bpe_dropout: float = key(0.0, "share of merges left out at random, in training only (bpe)", least=0, below=1)
    special_tokens: dict = key(
        {}, "other names of special tokens: {pad: '[PAD]', bos: '[SOS]', eos: '[EOS]', unk: '[UNK]'}, or some of them"
    )
    path: str | None = key(
        None, "folder or Hub id of a tokenizer made before; it is used as it is, whatever the keys for a new one say"
    )


# What has an effect on a tokenizer that was made before.
OF_ANY_TOKENIZER = {"bpe_dropout", "path"}


def keys_of_a_new_tokenizer(arguments: TokenizerArguments) -> list[str]:
    """The keys, other than at their defaults, that say how a new tokenizer is made."""
    defaults = TokenizerArguments()
    return [
        item.name
        for item in fields(TokenizerArguments)
        if item.name not in OF_ANY_TOKENIZER and getattr(arguments, item.name) != getattr(defaults, item.name)
    ]


def special_tokens(arguments: TokenizerArguments) -> dict[str, str]:
    """The special tokens by role, `pad_token`, `bos_token`, `eos_token` and `unk_token`, in the order of their ids."""
    return SPECIAL_TOKENS | {f"{role}_token": token for role, token in arguments.special_tokens.items()}


def tokenizer_faults(arguments: TokenizerArguments) -> list[str]:
    """What is wrong between the keys of section `tokenizer`, or with a value; empty where all is well."""
    kinds = get_type_hints(TokenizerArguments)
    plain = {name: kind for name, kind in kinds.items() if get_origin(kind) is not Literal}
    if errors := type_errors(vars(arguments), plain):
        return [f"tokenizer.{error}" for error in errors]
    faults = bound_errors("tokenizer", arguments) + _choice_errors(arguments)
    if arguments.path is not None:
        return faults
    kind = f"tokenizer.type={arguments.type}"
    if arguments.bpe_dropout and arguments.type != "bpe":
        faults.append(f"tokenizer.bpe_dropout={arguments.bpe_dropout} leaves out merges, which {kind} does not have")
    if arguments.byte_fallback and arguments.type not in ("bpe", "unigram"):
        faults.append(f"tokenizer.byte_fallback=True is for the types bpe and unigram, not for {kind}")
    if arguments.pre_tokenizer == "rules" and arguments.type != "word":
        faults.append(f"tokenizer.pre_tokenizer=rules is for the type word, not for {kind}")
    if arguments.pre_tokenizer == "whitespace" and arguments.type == "word":
        faults.append(
            f"tokenizer.pre_tokenizer=whitespace is for subwords, not for {kind}, whose words may end without a space"
        )
    if arguments.word_boundary == "after" and arguments.pre_tokenizer != "whitespace":
        faults.append(
            "tokenizer.word_boundary=after is for pre_tokenizer=whitespace, not for "
            f"pre_tokenizer={arguments.pre_tokenizer}, where a word before punctuation would have no mark"
        )
    if arguments.min_frequency is not None and arguments.type == "unigram":
        faults.append(f"tokenizer.min_frequency is not used by {kind}: leave it out")
    if arguments.target_vocab_size is not None and arguments.joint:
        faults.append(
            f"tokenizer.target_vocab_size={arguments.target_vocab_size} needs a vocabulary of the target's own: "
            "set tokenizer.joint to false"
        )
    faults += _special_token_faults(arguments)
    fixed = len(SPECIAL_TOKENS) + BYTE_COUNT * arguments.byte_fallback
    for name in ("vocab_size", "target_vocab_size"):
        value = getattr(arguments, name)
        if value is not None and 1 <= value < fixed + FEWEST_PIECES:
            taken = f"{len(SPECIAL_TOKENS)} special tokens" + f" and {BYTE_COUNT} bytes" * arguments.byte_fallback
            faults.append(
                f"tokenizer.{name}={value} is too small: {taken} come first; it must be at least "
                f"{fixed + FEWEST_PIECES}"
            )
    return faults


def _choice_errors(arguments: TokenizerArguments) -> list[str]:
    """Values that are not among those that a key names."""
    choices = {name: get_args(kind) for name, kind in get_type_hints(TokenizerArguments).items()}
    return [
        f"tokenizer.{name} must be one of {', '.join(map(repr, values))}, got {getattr(arguments, name)!r}"
        for name, values in choices.items()
        if get_origin(get_type_hints(TokenizerArguments)[name]) is Literal and getattr(arguments, name) not in values
    ]


def _special_token_faults(arguments: TokenizerArguments) -> list[str]:
    faults = []
    for role, token in arguments.special_tokens.items():
        name = f"tokenizer.special_tokens.{role}"
        if role not in ROLES:
            close = difflib.get_close_matches(str(role).removesuffix("_token"), ROLES, n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(ROLES)}"
            faults.append(f"{name}: unknown role; {hint}")
        elif not isinstance(token, str):
            hint = "; put it in quotes" if isinstance(token, list) else ""
            faults.append(f"{name} must be text, got {token!r}{hint}")
        elif not BRACKETED.fullmatch(token) or token in BYTES:
            faults.append(f"{name} must stand in brackets, as [PAD] or <pad>, without spaces in it, got {token!r}")
    if faults:
        return faults
    tokens = special_tokens(arguments)
    for token in dict.fromkeys(tokens.values()):
        roles = [name.removesuffix("_token") for name in tokens if tokens[name] == token]
        if len(roles) > 1:
            faults.append(f"tokenizer.special_tokens: {token} is the token of {' and '.join(roles)}; each has its own")
    return faults
