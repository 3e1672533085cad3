"""Builds tokenizers for fairseq and OpenNMT models, whose checkpoints have tokens but do not say how text is split.

A subword model next to a fairseq checkpoint splits the text. Otherwise tokens must be separated by spaces, as in the
model's training text, and decoding joins a piece that ends in `@@` to the next one.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import FSMTTokenizer, MarianTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..core.tokenization_vaswani import VaswaniTokenizer
from ..data.tokenizers.learn_vocabulary import append_eos
from ..errors import InputError, reason

BPE_CODES = ("bpecodes", "bpe.codes", "bpe_codes", "code", "codes", "bpe_codes.txt", "codes.txt")
SENTENCEPIECE_MODELS = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "spm.bpe.model")
JOINER = "@@"
SPLIT_AT_SPACES = "text must come as the tokens of the vocabulary, separated by spaces"


def read_dictionary(path: Path, special_tokens: Sequence[str]) -> list[str]:
    """Read the symbols of a fairseq `dict.LANGUAGE.txt`: one per line, with its count after the last space.

    Raises:
        InputError: the file cannot be read, or lines have no count or repeat a symbol; the error lists them.
    """
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    symbols, seen, errors = [], set(special_tokens), []
    for number, line in enumerate(lines, start=1):
        may_repeat = line.rstrip().endswith("#fairseq:overwrite") and line.split(" ")[0] not in special_tokens
        symbol, _, count = line.rstrip().removesuffix("#fairseq:overwrite").rstrip().rpartition(" ")
        if not count.isdigit() or not symbol:
            errors.append(f"{path}, line {number}: expected a symbol, a space and its count, got {line!r}.")
        elif symbol in seen and not may_repeat:
            errors.append(f"{path}, line {number}: {symbol!r} is repeated.")
        seen.add(symbol)
        symbols.append(symbol)
    if errors:
        raise InputError.of(errors)
    return symbols


def dictionary_tokenizer(
    folder: Path, source: list[str], target: list[str], languages: tuple[str, str]
) -> PreTrainedTokenizerBase:
    """Build the tokenizer of a fairseq model: `</s>` ends source and target.

    Args:
        folder: may hold a subword model, as BPE codes or a SentencePiece model.
        source, target: symbols of each side in order of their ids.
        languages: language codes of source and target, for the rules of the Moses tokenizer.
    """
    codes, pieces = _first_file(folder, BPE_CODES), _first_file(folder, SENTENCEPIECE_MODELS)
    if codes:
        return _bpe_tokenizer(codes, source, target, languages)
    if pieces:
        return _sentencepiece_tokenizer(pieces, source, target, languages)
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    backends = [word_backend(tokens, special["unk_token"], special["eos_token"]) for tokens in (source, target)]
    return join_backends(*backends, **special)


def describe_splitting(folder: Path) -> str:
    """A description of how `dictionary_tokenizer` splits text."""
    codes, pieces = _first_file(folder, BPE_CODES), _first_file(folder, SENTENCEPIECE_MODELS)
    if codes:
        return f"text is split by Moses' tokenizer and the codes of {codes.name}, without lowercasing"
    if pieces:
        return f"text is split by the SentencePiece model {pieces.name}"
    names = ", ".join((*BPE_CODES, *SENTENCEPIECE_MODELS))
    return f"{SPLIT_AT_SPACES}, since {folder} has no subword model with a known name ({names})"


def join_backends(source: Tokenizer, target: Tokenizer, **special_tokens: str) -> PreTrainedTokenizerBase:
    """Combine two backends into one tokenizer; if they are the same, it is a plain fast tokenizer."""
    settings = {**special_tokens, "model_input_names": ["input_ids", "attention_mask"]}
    if source.to_str() == target.to_str():
        return PreTrainedTokenizerFast(tokenizer_object=source, **settings)
    return VaswaniTokenizer.from_backends(source, target, **settings)


def word_backend(
    tokens: Sequence[str], unk_token: str, end: str | None, special_tokens: Sequence[str] = ()
) -> Tokenizer:
    """Build a backend for space-separated tokens, whose ids are their indices in `tokens`.

    Args:
        end: token to append to each text, if any.
        special_tokens: tokens that decoding can skip.
    """
    # A repeated token keeps its last id, as in fairseq.
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=unk_token))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # Not `Strip`, which fails on a text without tokens.
    joined = decoders.Replace(Regex(rf"{JOINER} ?$|{JOINER} | $"), "")
    backend.decoder = decoders.Sequence([decoders.Replace(Regex("$"), " "), decoders.Fuse(), joined])
    if end is not None:
        append_eos(backend, end)
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special_tokens])
    return backend


def _first_file(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _bpe_tokenizer(codes: Path, source: list[str], target: list[str], languages: tuple[str, str]) -> FSMTTokenizer:
    """The Moses tokenizer with BPE codes of subword-nmt or fastBPE, as in fairseq's published models."""
    return _open(
        FSMTTokenizer,
        codes,
        {
            name: {_word_end_marked(token): i for i, token in enumerate(tokens)}
            for name, tokens in (("src_vocab_file", source), ("tgt_vocab_file", target))
        },
        langs=list(languages),
        eos_token="</s>",
        merges_file=str(codes),
        do_lower_case=False,
    )


def _sentencepiece_tokenizer(
    model: Path, source: list[str], target: list[str], languages: tuple[str, str]
) -> MarianTokenizer:
    """A SentencePiece model whose pieces get their ids from the dictionary, as in Marian's tokenizer."""
    return _open(
        MarianTokenizer,
        model,
        {
            name: {token: i for i, token in enumerate(tokens)}
            for name, tokens in (("vocab", source), ("target_vocab_file", target))
        },
        source_spm=str(model),
        target_spm=str(model),
        source_lang=languages[0],
        target_lang=languages[1],
        separate_vocabs=source != target,
    )


def _open(
    tokenizer_class: type[PreTrainedTokenizerBase], model: Path, vocabularies: dict[str, dict[str, int]], **arguments
) -> PreTrainedTokenizerBase:
    """Create a tokenizer that takes its vocabularies as files; `vocabularies` maps argument names to contents."""
    with tempfile.TemporaryDirectory() as folder:
        for name, vocabulary in vocabularies.items():
            path = Path(folder) / name
            path.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
            arguments[name] = str(path)
        try:
            return tokenizer_class(**arguments)
        except ImportError as error:
            raise InputError(
                f"{tokenizer_class.__name__} needs a package that is not installed: pip install 'hf_vaswani[interop]' "
                f"({reason(error)[:200]})"
            ) from None
        except Exception as error:  # a damaged subword model can raise anything
            raise InputError(f"{model} cannot be read as a subword model: {reason(error)[:200]}") from None


def _word_end_marked(token: str) -> str:
    """Mark the ends of words instead of continuations: `foo@@` → `foo`, `foo` → `foo</w>`."""
    if token in ("<s>", "<pad>", "</s>", "<unk>"):
        return token
    return token.removesuffix(JOINER) if token.endswith(JOINER) else f"{token}</w>"
