"""Tokenizers from the vocabularies of fairseq and OpenNMT, whose checkpoints know tokens but not how text is split.

Where the sub-word model lies beside the checkpoint, text is split by it; otherwise tokens are separated by spaces, as
the text was that the model was trained on, and `@@` at the end of a piece joins it to the next when decoding.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import FSMTTokenizer, MarianTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..core.tokenization_vaswani import VaswaniTokenizer
from ..errors import InputError, reason

BPE_CODES = ("bpecodes", "bpe.codes", "bpe_codes", "code", "codes", "bpe_codes.txt", "codes.txt")
SENTENCEPIECE_MODELS = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "spm.bpe.model")
JOINER = "@@"
SPLIT_AT_SPACES = "text must come as the tokens of the vocabulary, separated by spaces"


def read_dictionary(path: Path, special_tokens: Sequence[str]) -> list[str]:
    """The symbols of a fairseq `dict.LANGUAGE.txt` in order: one a line, with its count behind the last space.

    Raises:
        InputError: every line without a count, or with a symbol that was there before, by its number.
    """
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    symbols, seen, faults = [], set(special_tokens), []
    for number, line in enumerate(lines, start=1):
        may_repeat = line.rstrip().endswith("#fairseq:overwrite") and line.split(" ")[0] not in special_tokens
        symbol, _, count = line.rstrip().removesuffix("#fairseq:overwrite").rstrip().rpartition(" ")
        if not count.isdigit() or not symbol:
            faults.append(f"{path}, line {number}: a symbol, a space and its count are expected, found {line!r}.")
        elif symbol in seen and not may_repeat:
            faults.append(f"{path}, line {number}: {symbol!r} was there before.")
        seen.add(symbol)
        symbols.append(symbol)
    if faults:
        raise InputError.of(faults)
    return symbols


def dictionary_tokenizer(
    folder: Path, source: list[str], target: list[str], languages: tuple[str, str]
) -> PreTrainedTokenizerBase:
    """The tokenizer of a fairseq model: `</s>` ends source and target.

    Args:
        folder: where a sub-word model may lie: BPE codes or a SentencePiece model.
        source, target: symbols of either side in the order of their ids.
        languages: codes of source and target, for Moses' rules.
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
    """How `dictionary_tokenizer` splits text, in words."""
    codes, pieces = _first_file(folder, BPE_CODES), _first_file(folder, SENTENCEPIECE_MODELS)
    if codes:
        return f"text is split by Moses' tokenizer and the codes of {codes.name}, without lower-casing"
    if pieces:
        return f"text is split by the SentencePiece model {pieces.name}"
    names = ", ".join((*BPE_CODES, *SENTENCEPIECE_MODELS))
    return f"{SPLIT_AT_SPACES}, since {folder} has no sub-word model by a known name ({names})"


def join_backends(source: Tokenizer, target: Tokenizer, **special_tokens: str) -> PreTrainedTokenizerBase:
    """One tokenizer of two backends; a plain fast tokenizer where both are the same."""
    settings = {**special_tokens, "model_input_names": ["input_ids", "attention_mask"]}
    if source.to_str() == target.to_str():
        return PreTrainedTokenizerFast(tokenizer_object=source, **settings)
    return VaswaniTokenizer.from_backends(source, target, **settings)


def word_backend(
    tokens: Sequence[str], unk_token: str, end: str | None, special_tokens: Sequence[str] = ()
) -> Tokenizer:
    """Tokens separated by spaces, with the ids of their places in `tokens`.

    Args:
        end: token to put behind each text; None for none.
        special_tokens: tokens that decoding can leave out.
    """
    # A repeated token keeps its last id, as it does in fairseq.
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=unk_token))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace(Regex("$"), " "),
            decoders.Fuse(),
            # Not `Strip`, which breaks on a text without tokens.
            decoders.Replace(Regex(rf"{JOINER} ?$|{JOINER} | $"), ""),
        ]
    )
    if end is not None:
        backend.post_processor = processors.TemplateProcessing(
            single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, vocabulary[end])]
        )
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special_tokens])
    return backend


def _first_file(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _bpe_tokenizer(codes: Path, source: list[str], target: list[str], languages: tuple[str, str]) -> FSMTTokenizer:
    """subword-nmt's or fastBPE's codes, behind Moses' tokenizer, as fairseq's published models use them."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"src_vocab_file": source, "tgt_vocab_file": target}
        for name, tokens in files.items():
            _write_json(Path(folder) / name, {_word_end_marked(token): i for i, token in enumerate(tokens)})
        return _open(
            FSMTTokenizer,
            codes,
            langs=list(languages),
            eos_token="</s>",
            merges_file=str(codes),
            do_lower_case=False,
            **{name: str(Path(folder) / name) for name in files},
        )


def _sentencepiece_tokenizer(
    model: Path, source: list[str], target: list[str], languages: tuple[str, str]
) -> MarianTokenizer:
    """A SentencePiece model whose pieces have other ids in the dictionary: what Marian's tokenizer is made for."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"vocab": source, "target_vocab_file": target}
        for name, tokens in files.items():
            _write_json(Path(folder) / name, {token: i for i, token in enumerate(tokens)})
        return _open(
            MarianTokenizer,
            model,
            source_spm=str(model),
            target_spm=str(model),
            source_lang=languages[0],
            target_lang=languages[1],
            separate_vocabs=source != target,
            **{name: str(Path(folder) / name) for name in files},
        )


def _open(tokenizer_class: type[PreTrainedTokenizerBase], model: Path, **arguments) -> PreTrainedTokenizerBase:
    try:
        return tokenizer_class(**arguments)
    except ImportError as error:
        raise InputError(
            f"{tokenizer_class.__name__} needs a package that is not installed: pip install 'hf_vaswani[interop]' "
            f"({reason(error)[:200]})"
        ) from None
    except Exception as error:  # whatever a damaged sub-word model makes it raise
        raise InputError(f"{model} cannot be read as a sub-word model: {reason(error)[:200]}") from None


def _word_end_marked(token: str) -> str:
    """`foo@@` is `foo` and `foo` is `foo</w>` where the end of a word is marked instead of its being continued."""
    if token in ("<s>", "<pad>", "</s>", "<unk>"):
        return token
    return token.removesuffix(JOINER) if token.endswith(JOINER) else f"{token}</w>"


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
