"""Learns a model's tokenizer from parallel text, or loads one, and writes its files."""

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ...core.tokenization_vaswani import FOLDS_CAPITALS, VaswaniTokenizer
from ...errors import InputError, reason
from ...files import AGAIN, collect_errors, model_path_error, read_json, type_errors, where_not_found
from ...text.inputs import check_many, text_pairs
from ...text.normalization import WHITESPACE
from ...text.vocabularies import target_encoding_error
from ..sources.text_files import Pair
from .arguments import TokenizerArguments, special_tokens

TOKENIZER_SETTINGS = "tokenizer_config.json"
TOKENIZER_SETTINGS_TYPES = {"model_max_length": float | None, "tokenizer_class": str | None}
TOKENIZER_FILES = ("tokenizer*.json", "vocab*.json", "vocab.txt", "*.spm", "spiece.model", "sentencepiece*.model")
TOKENIZER_JSON = ("tokenizer*.json", "vocab*.json", "special_tokens_map.json", "added_tokens.json")
# All files that may be written when a tokenizer is saved, by this package or another system.
SAVED_FILES = (
    *TOKENIZER_FILES, "target_*.json", "special_tokens_map.json", "added_tokens.json", "merges.txt", "dict.txt",
    "*.model", "chat_template.jinja", "tokenization_*.py",
)  # fmt: skip
# The setting of a tokenizer that says what each source begins with.
SOURCE_PREFIX = "source_prefix"
# What transformers notes about the place that a tokenizer was loaded from, and would write into its saved files.
WHERE_FROM = ("is_local", "local_files_only")


def check_tokenizer_settings(folder: Path) -> None:
    """Check `tokenizer_config.json`, if it exists, since tokenizers accept values of any type and fail later.

    Raises:
        InputError: the file is damaged, or has values of the wrong type (lists all of them).
    """
    path = folder / TOKENIZER_SETTINGS
    if path.exists() and (errors := type_errors(read_json(path), TOKENIZER_SETTINGS_TYPES, optional=True)):
        raise InputError.of([f"{path}: {error}. {AGAIN}" for error in errors])


def tokenizer_file_errors(folder: Path) -> list[str]:
    """Return the errors in a tokenizer's files: those that are damaged or missing."""
    errors: list[str] = []
    for pattern in TOKENIZER_JSON:
        for path in sorted(folder.glob(pattern)):
            collect_errors(errors, lambda path=path: read_json(path))
    if not errors and (folder / "tokenizer.json").exists():
        collect_errors(errors, lambda: _check_tokenizer(folder / "tokenizer.json"))
    files = {path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)}
    if files == {folder / TOKENIZER_SETTINGS}:
        errors.append(f"{folder} has {TOKENIZER_SETTINGS}, but no vocabulary with it (tokenizer.json). {AGAIN}")
    return errors


def _check_tokenizer(path: Path) -> None:
    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no exception type of its own
        raise InputError(f"{path} cannot be read: it is not a tokenizer ({reason(error)}). {AGAIN}") from None


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds the files of a tokenizer of any kind known to transformers."""
    return any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES)


def train_tokenizer(
    pairs: Iterable[Pair],
    arguments: TokenizerArguments,
    markers: tuple[list[str], list[str]] = ([], []),
    folds_capitals: bool = False,
    marks: Sequence[str] = (),
) -> VaswaniTokenizer:
    """Learn a tokenizer for source and target.

    Args:
        pairs: the training text, which must support repeated iteration: it is read at least twice for each
            vocabulary, and never held in memory.
        markers: tokens of source and of target that no text can spell, besides special tokens; see `text/markers.py`.
        folds_capitals: whether it is to read sources in capitals as lower case.
        marks: tokens of target languages and tags, with which sources begin: `>>fr<<`.

    Returns:
        A tokenizer that ends each text with the token `eos` and treats the vocabulary's special tokens inside a text
        as ordinary characters. The same text gives the same tokenizer, byte for byte.

    Raises:
        InputError: the arguments contradict each other (lists all errors), or the text is empty.
    """
    from .learn_vocabulary import learn_vocabulary  # a resumed run has its tokenizer

    if errors := arguments.validate():
        raise InputError.of(errors)
    check_many("pairs", pairs, "(source, target)")
    if marks:
        pairs = Unmarked(pairs, marks)
    settings = {
        **special_tokens(arguments),
        "model_input_names": ["input_ids", "attention_mask"],
        "split_special_tokens": True,
        WHITESPACE: arguments.whitespace,
        **({FOLDS_CAPITALS: True} if folds_capitals else {}),
    }
    if arguments.joint:
        texts = lambda: (side for pair in text_pairs(pairs) for side in pair)  # noqa: E731
        tokens = list(dict.fromkeys(markers[0] + markers[1]))
        backend = learn_vocabulary(texts, arguments, arguments.vocab_size - len(marks), "training", tokens)
        return with_marks(VaswaniTokenizer(tokenizer_object=backend, **settings), marks)
    sizes = {"source": arguments.vocab_size, "target": arguments.target_vocab_size or arguments.vocab_size}
    backends = [
        learn_vocabulary(
            lambda side=side: (pair[side] for pair in text_pairs(pairs)),
            arguments,
            size - len(marks),
            name,
            markers[side],
        )
        for side, (name, size) in enumerate(sizes.items())
    ]
    return with_marks(VaswaniTokenizer.from_backends(*backends, **settings), marks)


class Unmarked:
    """Pairs whose sources are without the marks that they begin with; iterated over as often as the pairs."""

    def __init__(self, pairs: Iterable[Pair], marks: Sequence[str]):
        self._pairs, self._mark = pairs, re.compile(f"(?:{'|'.join(map(re.escape, marks))})\\s*")

    def __iter__(self) -> Iterator[Pair]:
        for source, target in text_pairs(self._pairs):
            while mark := self._mark.match(source):
                source = source[mark.end() :]
            yield source, target


def with_marks(tokenizer: VaswaniTokenizer, marks: Sequence[str]) -> VaswaniTokenizer:
    """A tokenizer after adding tokens of target languages and tags to it."""
    # The space before a tag belongs to it; that before a word begins the word.
    tokens = [AddedToken(mark, normalized=False, lstrip=True) for mark in marks]
    tokenizer.add_tokens(tokens)
    return tokenizer


def load_tokenizer(path: str, trust_remote_code: bool | None = None) -> PreTrainedTokenizerFast:
    """Load a tokenizer from a folder or the Hub.

    Args:
        trust_remote_code: whether to run code that comes with the tokenizer; by default, transformers asks the user.

    Raises:
        InputError: the tokenizer does not exist or cannot be loaded.
    """
    if error := model_path_error(path):
        raise InputError(error)
    if Path(path).is_file():
        raise InputError(f"{path} is a file. Specify the folder that it is in: {Path(path).parent}")
    if Path(path).is_dir() and not has_tokenizer(Path(path)):
        raise InputError(f"{path} has no tokenizer (tokenizer.json). Specify a folder that has one, or a Hub id.")
    check_tokenizer_settings(Path(path))
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
    except Exception as error:  # transformers raises many types for damaged or missing files
        if errors := tokenizer_file_errors(Path(path)):
            raise InputError.of(errors) from None
        if isinstance(error, TypeError | AttributeError):
            raise InputError(f"{path} cannot be loaded: a value in its files has the wrong type. {AGAIN}") from None
        where = where_not_found(path) or ": its tokenizer"
        raise InputError(f"{path}{where} cannot be loaded: {reason(error)}") from None
    for name in WHERE_FROM:
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path, beside_other_model: bool = False) -> None:
    """Write a tokenizer's files into a folder.

    Args:
        beside_other_model: whether the model in the folder is not one of this package, so that a tokenizer with two
            vocabularies is written by [`VaswaniTokenizer.save_sides`].

    Raises:
        OSError: the files cannot be written.
    """
    write = tokenizer.save_pretrained
    if beside_other_model and isinstance(tokenizer, VaswaniTokenizer) and not tokenizer.is_joint:
        write = tokenizer.save_sides
    try:
        write(folder)
    except Exception as error:
        # The tokenizers library raises a plain Exception if it cannot write.
        if type(error) is not Exception:
            raise
        raise OSError(errno.EIO, str(error)) from error


def check_target_encoding(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise an [`InputError`] for a tokenizer that cannot encode targets: FSMT's, if it has two vocabularies."""
    if error := target_encoding_error(tokenizer):
        raise InputError(error)


def side_backends(tokenizer: PreTrainedTokenizerBase) -> dict[str, Tokenizer]:
    """The backends (`tokenizers.Tokenizer`) for `"source"` and `"target"`; both are the same for a joint vocabulary.

    Raises:
        InputError: the tokenizer has no such backend; Marian's, for example, has none.
    """
    if isinstance(tokenizer, VaswaniTokenizer):
        return tokenizer.backends
    if not tokenizer.is_fast:
        raise InputError(f"{type(tokenizer).__name__} is not built on the tokenizers library, which this needs.")
    return dict.fromkeys(("source", "target"), tokenizer.backend_tokenizer)
