"""Tiny random models of all translation families of transformers, each with its own tokenizer, created on the fly."""

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)

from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS

from .conftest import tiny_model, word_tokenizer

FAMILIES = ["Vaswani", "Marian", "T5", "M2M100", "NLLB", "mBART", "mBART-50", "Bart"]
LANGUAGES = {
    "M2M100": ("de", "en"),
    "NLLB": ("deu_Latn", "eng_Latn"),
    "mBART": ("de_DE", "en_XX"),
    "mBART-50": ("de_DE", "en_XX"),
}
WORDS = ["ein", "hund", "läuft", "über", "die", "wiese", "katze", "und", "schläft", "haus"]
PIECES = ["▁", *(f"▁{word}" for word in WORDS), *"abcdefghijklmnopqrstuvwxyzäöü.,"]


def family(name: str, folder: Path, **changes) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model in eval mode and its tokenizer; `changes` go to the model's config."""
    tokenizer = TOKENIZERS[name](folder)
    # The length of M2M100's tokenizer does not include its languages.
    last_language = max(getattr(tokenizer, "lang_code_to_id", {"": 0}).values())
    ids = {
        "vocab_size": max(len(tokenizer), last_language + 1),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.eos_token_id,
    }
    torch.manual_seed(0)
    if name == "Vaswani":
        return tiny_model(**changes), tokenizer
    if name == "T5":
        start = {"decoder_start_token_id": tokenizer.pad_token_id}
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
        # A separate LM head, since the tied one of a random model repeats the decoder's start token.
        config = T5Config(**{**ids, **start, **sizes, "tie_word_embeddings": False, **changes})
        model = T5ForConditionalGeneration(config)
        torch.nn.init.normal_(model.lm_head.weight)
        return model.eval(), tokenizer
    sizes = {"d_model": 16, "max_position_embeddings": 40, "init_std": 1.0, "forced_eos_token_id": None}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 16}
    config_class, model_class = MODELS[name]
    if name == "Marian":
        ids["decoder_start_token_id"] = tokenizer.pad_token_id
    return model_class(config_class(**{**ids, **sizes, **changes})).eval(), tokenizer


def languages(name: str) -> dict[str, str]:
    """The arguments that a multilingual model needs."""
    return dict(zip(("src_lang", "tgt_lang"), LANGUAGES.get(name, ())))


def only_words(name: str, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """Search options with which a random model generates only words: special tokens, also the end, are suppressed."""
    special = {*tokenizer.all_special_ids, *getattr(tokenizer, "lang_code_to_id", {}).values()}
    if name in LANGUAGES:
        target = LANGUAGES[name][1]
        # It is forced at the beginning, so it must not be suppressed.
        special -= {getattr(tokenizer, "lang_code_to_id", {}).get(target, tokenizer.convert_tokens_to_ids(target))}
    return {"suppress_tokens": sorted(special)}


def _sentencepiece(folder: Path) -> str:
    sentencepiece = pytest.importorskip("sentencepiece")
    file = folder / "pieces.model"
    if not file.exists():
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([" ".join(WORDS), "".join(PIECES[11:])] * 20),
            model_prefix=str(file.with_suffix("")),
            vocab_size=60,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    return str(file)


def _vocabulary_file(folder: Path, first: list[str], last: list[str]) -> str:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=_sentencepiece(folder))
    pieces = [processor.id_to_piece(i) for i in range(3, len(processor))]
    file = folder / "vocab.json"
    file.write_text(json.dumps({token: i for i, token in enumerate([*first, *pieces, *last])}), encoding="utf-8")
    return str(file)


def _marian(folder: Path) -> MarianTokenizer:
    pieces = _sentencepiece(folder)
    return MarianTokenizer(pieces, pieces, _vocabulary_file(folder, ["</s>", "<unk>"], ["<pad>"]))


def _m2m100(folder: Path) -> M2M100Tokenizer:
    pieces = _sentencepiece(folder)
    vocabulary = _vocabulary_file(folder, ["<s>", "<pad>", "</s>", "<unk>"], [])
    # As in the checkpoints: the languages are special tokens, all of them in the order of their ids.
    codes = M2M100Tokenizer(vocabulary, pieces).lang_token_to_id
    return M2M100Tokenizer(vocabulary, pieces, extra_special_tokens=list(codes))


def _nllb(folder: Path) -> NllbTokenizer:
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "▁", *PIECES[11:]])}
    return NllbTokenizer(vocab=vocabulary, merges=[])


def _unigram(*first: str) -> list[tuple[str, float]]:
    return [(token, 0.0) for token in first] + [(piece, -float(i)) for i, piece in enumerate(PIECES, 1)]


def _bart(folder: Path) -> BartTokenizer:
    letters = ["Ġ", "Ã", "¤", "¶", "¼", *"abcdefghijklmnopqrstuvwxyz.,"]
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters])}
    return BartTokenizer(vocab=vocabulary, merges=[])


def _vaswani(folder: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer([*WORDS, *"abcdefghijklmnopqrstuvwxyz"]),
        model_input_names=["input_ids", "attention_mask"],
        **SPECIAL_TOKENS,
    )


TOKENIZERS = {
    "Vaswani": _vaswani,
    "Marian": _marian,
    "T5": lambda folder: T5Tokenizer(vocab=_unigram("<pad>", "</s>", "<unk>"), extra_ids=0),
    "M2M100": _m2m100,
    "NLLB": _nllb,
    "mBART": lambda folder: MBartTokenizer(vocab=_unigram("<s>", "<pad>", "</s>", "<unk>")),
    "mBART-50": lambda folder: MBart50Tokenizer(vocab=_unigram("<s>", "<pad>", "</s>", "<unk>"), src_lang="en_XX"),
    "Bart": _bart,
}
MODELS = {
    "Marian": (MarianConfig, MarianMTModel),
    "M2M100": (M2M100Config, M2M100ForConditionalGeneration),
    "NLLB": (M2M100Config, M2M100ForConditionalGeneration),
    "mBART": (MBartConfig, MBartForConditionalGeneration),
    "mBART-50": (MBartConfig, MBartForConditionalGeneration),
    "Bart": (BartConfig, BartForConditionalGeneration),
}
