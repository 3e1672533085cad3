"""Keys of a recipe about data and tokenizers, and what contradicts what among them.

Every key is a field with its meaning in its metadata; help is made from these.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

SPECIAL_TOKEN_COUNT, BYTE_COUNT = 4, 256
# A vocabulary needs the space and one letter besides special tokens and bytes.
FEWEST_PIECES = 2


def key(default: Any, help: str) -> Any:
    """A recipe key with its default and its meaning."""
    if isinstance(default, (dict, list)):
        return field(default_factory=default.copy, metadata={"help": help})
    return field(default=default, metadata={"help": help})


@dataclass
class TokenizerArguments:
    """How text becomes tokens."""

    type: Literal["bpe", "unigram", "wordpiece", "word"] = key(
        "bpe", "bpe (byte-pair encoding), unigram (language model), wordpiece (longest match first) or word"
    )
    vocab_size: int = key(8000, "most tokens of a vocabulary, special tokens included")
    target_vocab_size: int | None = key(None, "the same for the target, with joint=false; default: vocab_size")
    joint: bool = key(True, "one vocabulary for both languages, or one for each")
    lowercase: bool = key(False, "lower-case all text")
    normalization: Literal["nfc", "nfkc", "none"] = key(
        "nfc", "Unicode form of all text: composed letters (nfc), wide and other variants unified, too (nfkc)"
    )
    min_frequency: int | None = key(
        None, "pairs of pieces (bpe, wordpiece) or words (word) seen less often are not learnt; default: 2"
    )
    byte_fallback: bool = key(False, "characters outside the vocabulary become bytes, not <unk> (bpe, unigram)")
    bpe_dropout: float = key(0.0, "share of merges left out at random, in training only (bpe)")
    path: str | None = key(
        None, "folder or Hub id of a tokenizer made before; it is used as it is, so the keys that shape a new one go"
    )


def tokenizer_faults(arguments: TokenizerArguments) -> list[str]:
    """What is wrong between the keys of section `tokenizer`, or with a value; empty where all is well."""
    faults = []
    for name in ("vocab_size", "target_vocab_size", "min_frequency"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            faults.append(f"tokenizer.{name} must be at least 1, got {value}")
    if not 0 <= arguments.bpe_dropout < 1:
        faults.append(f"tokenizer.bpe_dropout must be in [0, 1), got {arguments.bpe_dropout}")
    if arguments.path is not None:
        return faults
    kind = f"tokenizer.type={arguments.type}"
    if arguments.bpe_dropout and arguments.type != "bpe":
        faults.append(f"tokenizer.bpe_dropout={arguments.bpe_dropout} leaves out merges, which {kind} does not have")
    if arguments.byte_fallback and arguments.type not in ("bpe", "unigram"):
        faults.append(f"tokenizer.byte_fallback=True is for the types bpe and unigram, not for {kind}")
    if arguments.min_frequency is not None and arguments.type == "unigram":
        faults.append(f"tokenizer.min_frequency is not used by {kind}: leave it out")
    if arguments.target_vocab_size is not None and arguments.joint:
        faults.append(
            f"tokenizer.target_vocab_size={arguments.target_vocab_size} needs a vocabulary of the target's own: "
            "set tokenizer.joint to false"
        )
    fixed = SPECIAL_TOKEN_COUNT + BYTE_COUNT * arguments.byte_fallback
    for name in ("vocab_size", "target_vocab_size"):
        value = getattr(arguments, name)
        if value is not None and 1 <= value < fixed + FEWEST_PIECES:
            taken = f"{SPECIAL_TOKEN_COUNT} special tokens" + f" and {BYTE_COUNT} bytes" * arguments.byte_fallback
            faults.append(
                f"tokenizer.{name}={value} is too small: {taken} come first; it must be at least "
                f"{fixed + FEWEST_PIECES}"
            )
    return faults
