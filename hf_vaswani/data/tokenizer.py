"""Trains sub-word tokenizers on parallel text, with the `tokenizers` library.

Words are split by byte-pair encoding (section 5.1 of the paper) after white space, punctuation and digits have been
set apart; the space before a word is part of its first piece, so that decoding gives back the text.
"""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from ..tokenization_vaswani import VaswaniTokenizer
from .parallel_text import Pair

# In the order of their ids, which are the defaults of VaswaniConfig.
SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
TOKENIZER_FILES = ("tokenizer*.json", "vocab*.json", "vocab.txt", "*.spm", "spiece.model", "sentencepiece*.model")


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds the files of a tokenizer, of any kind that transformers knows."""
    return any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES)


def train_tokenizer(pairs: list[Pair], vocab_size: int, joint: bool = True) -> PreTrainedTokenizerFast:
    """Train a tokenizer for source and target.

    Args:
        pairs: the training text.
        vocab_size: number of pieces, special tokens included; for separate vocabularies, of each side. A small text
            may give fewer.
        joint: one vocabulary for both languages; otherwise one for each, in a [`VaswaniTokenizer`].

    Returns:
        A tokenizer that ends each text with `</s>`.
    """
    settings = {**SPECIAL_TOKENS, "model_input_names": ["input_ids", "attention_mask"]}
    if joint:
        backend = train_bpe((side for pair in pairs for side in pair), vocab_size)
        return PreTrainedTokenizerFast(tokenizer_object=backend, **settings)
    return VaswaniTokenizer.from_backends(
        train_bpe((source for source, _ in pairs), vocab_size),
        train_bpe((target for _, target in pairs), vocab_size),
        **settings,
    )


def train_bpe(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Byte-pair encoding of at most `vocab_size` pieces, learnt from `texts`."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL_TOKENS["unk_token"]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    tokenizer.decoder = decoders.Metaspace()
    special_tokens = list(SPECIAL_TOKENS.values())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        # Without it a text of many letters, Chinese say, would fill more than the vocabulary.
        limit_alphabet=max(vocab_size - len(special_tokens), 0),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    end = SPECIAL_TOKENS["eos_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, tokenizer.token_to_id(end))]
    )
    return tokenizer
