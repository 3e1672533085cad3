"""The tokenizer of a model: learnt from parallel text, or one that was made before."""

import errno
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ...core.pipeline_inputs import check_many, target_encoding_error, text_pairs
from ...core.tokenization_vaswani import VaswaniTokenizer
from ...errors import InputError, reason
from ...files import AGAIN, path_error, where_not_found
from ..sources.parallel_files import Pair
from .arguments import TokenizerArguments, special_tokens, tokenizer_errors
from .tokenizer_files import TOKENIZER_FILES, check_tokenizer_settings, tokenizer_file_errors
from .vocabulary import learn_vocabulary

# All that saving one may write, of this package's own or of another system's.
SAVED_FILES = (
    *TOKENIZER_FILES, "target_*.json", "special_tokens_map.json", "added_tokens.json", "merges.txt", "dict.txt",
    "*.model", "chat_template.jinja", "tokenization_*.py",
)  # fmt: skip


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds the files of a tokenizer, of any kind that transformers knows."""
    return any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES)


def train_tokenizer(pairs: Iterable[Pair], arguments: TokenizerArguments) -> PreTrainedTokenizerFast:
    """Learn a tokenizer for source and target.

    Args:
        pairs: the training text. It is read once for each vocabulary, and never held in memory; so it must be
            possible to iterate it again.
        arguments: kind and size of the vocabularies.

    Returns:
        A tokenizer that ends each text with the token `eos` and takes special tokens in a text for ordinary
        characters; with a vocabulary for each side, a [`VaswaniTokenizer`]. The same text gives the same tokenizer,
        byte for byte.

    Raises:
        InputError: arguments that contradict each other, all at once; a text that is empty.
    """
    faults = tokenizer_errors(arguments)
    if faults:
        raise InputError.of(faults)
    check_many("pairs", pairs, "(source, target)")
    settings = {
        **special_tokens(arguments),
        "model_input_names": ["input_ids", "attention_mask"],
        "split_special_tokens": True,
    }
    if arguments.joint:
        texts = lambda: (side for pair in text_pairs(pairs) for side in pair)  # noqa: E731
        backend = learn_vocabulary(texts, arguments, arguments.vocab_size, "training")
        return PreTrainedTokenizerFast(tokenizer_object=backend, **settings)
    sizes = {"source": arguments.vocab_size, "target": arguments.target_vocab_size or arguments.vocab_size}
    backends = [
        learn_vocabulary(lambda side=side: (pair[side] for pair in text_pairs(pairs)), arguments, size, name)
        for side, (name, size) in enumerate(sizes.items())
    ]
    return VaswaniTokenizer.from_backends(*backends, **settings)


def load_tokenizer(path: str) -> PreTrainedTokenizerFast:
    """A tokenizer made before, from a folder or the Hub.

    Raises:
        InputError: where there is none.
    """
    if error := path_error(path):
        raise InputError(error)
    if Path(path).is_dir() and not has_tokenizer(Path(path)):
        raise InputError(f"{path} has no tokenizer (tokenizer.json). Name the folder of one, or a Hub id.")
    if Path(path).is_dir():
        check_tokenizer_settings(Path(path))
    try:
        return AutoTokenizer.from_pretrained(path)
    except Exception as error:  # transformers raises many kinds for files that are damaged or missing
        if faults := tokenizer_file_errors(Path(path)):
            raise InputError.of(faults) from None
        if isinstance(error, TypeError | AttributeError):
            raise InputError(f"{path} cannot be loaded: a value in its files is of a wrong type. {AGAIN}") from None
        raise InputError(f"{path}{where_not_found(path)} cannot be loaded: {reason(error)}") from None


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path, beside_other_model: bool = False) -> None:
    """Write a tokenizer's files into a folder.

    Args:
        beside_other_model: whether the folder's model is of another class than this package's, so that a tokenizer of
            two vocabularies needs the form of [`VaswaniTokenizer.save_sides`].

    Raises:
        OSError: where they cannot be written.
    """
    write = tokenizer.save_pretrained
    if beside_other_model and isinstance(tokenizer, VaswaniTokenizer):
        write = tokenizer.save_sides
    try:
        write(folder)
    except Exception as error:
        # What the library tokenizers raises where it cannot write is of no kind of its own.
        if type(error) is not Exception:
            raise
        raise OSError(errno.EIO, str(error)) from error


def check_target_encoding(tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that cannot encode targets.

    Raises:
        InputError: for FSMT's with two vocabularies.
    """
    if error := target_encoding_error(tokenizer):
        raise InputError(error)


def side_backends(tokenizer: PreTrainedTokenizerBase) -> dict[str, Tokenizer]:
    """The tokenizers of `"source"` and `"target"`; the same one twice where the vocabulary is joint.

    Raises:
        InputError: where it is not made of them, as Marian's is not.
    """
    if isinstance(tokenizer, VaswaniTokenizer):
        return tokenizer.backends
    if not tokenizer.is_fast:
        raise InputError(f"{type(tokenizer).__name__} is not of the library tokenizers, which this needs.")
    return dict.fromkeys(("source", "target"), tokenizer.backend_tokenizer)
