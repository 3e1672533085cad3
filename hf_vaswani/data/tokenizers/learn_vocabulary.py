"""Learns a vocabulary from text and turns it into a tokenizer: byte-pair encoding, unigram, WordPiece or words.

Subwords: the space before a word becomes the word-boundary marker `▁` on the word's first piece; whitespace,
punctuation and digits are isolated. Where whitespace is kept, every additional space is a separate piece, so that
decoding restores the text. In pre-tokenized text, punctuation is not isolated: a punctuation mark is a word with a
space before it, and would be split into two pieces. There, the marker may also follow the last piece of a word, like
the end-of-word symbol of Sennrich et al. 2016.

The same text gives the same vocabulary, byte for byte. This rules out two trainers of the `tokenizers` library,
unigram and WordPiece, which break ties between pieces by the order of hash tables.
"""

import io
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from ...errors import InputError, counted
from ...text.normalization import FORMATS, INVISIBLE, invisible_normalizer
from .arguments import BYTES, TokenizerArguments, special_tokens
from .word_splitting import JOINER, marks, splitter

logger = logging.getLogger(__name__)

SPACE = "▁"
# Replaces a `▁` in the text itself: a code point that Unicode reserves for internal use.
LITERAL_SPACE_MARK = "\ufdd1"
DEFAULT_MIN_FREQUENCY = 2
LONGEST_WORD = 1000
# Invisible characters that a language may need: spaces, joiners, selectors. In fewer than 1 of 200 texts, it does not.
LEARNABLE, RARE = INVISIBLE.difference(FORMATS), 200
# Characters with a special meaning in SentencePiece; they are added to the learned pieces afterwards.
SENTENCEPIECE_RESERVED = frozenset("\0\t\n\r\x1f▅")
# Always isolated, so that text is never mistaken for a special token or a byte.
BRACKET = r"[<>\[\]{}()]"

# Each call reads the text from its beginning.
Texts = Callable[[], Iterable[str]]


def learn_vocabulary(
    texts: Texts, arguments: TokenizerArguments, vocab_size: int, name: str, markers: Sequence[str] = ()
) -> Tokenizer:
    """Learn a tokenizer of at most `vocab_size` tokens, which ends each text with the token `eos`.

    Args:
        texts: read once, again to normalize whitespace, and again if not all characters fit into the vocabulary.
        vocab_size: includes special tokens and bytes. A small text may give fewer tokens.
        name: what to call the text in messages, such as "source".
        markers: tokens in brackets that no text can spell, as it cannot spell special tokens.

    Raises:
        InputError: the text is empty.
    """
    learn, vocab_size = LEARNERS[arguments.type], vocab_size - len(markers)
    if arguments.whitespace == "keep":
        tokenizer = learn(texts, arguments, vocab_size, name)
    else:
        visible = invisible_normalizer(_frequent(texts, LEARNABLE), keeps_start=arguments.word_boundary == "before")
        tokenizer = learn(lambda: map(visible.normalize_str, texts()), arguments, vocab_size, name)
        tokenizer.normalizer = normalizers.Sequence([visible, tokenizer.normalizer])
    if markers:
        tokenizer = _with_tokens(tokenizer, markers)
    special = special_tokens(arguments)
    # Decoding skips markers, too, which a translation has only where it is decoded with them.
    tokenizer.add_special_tokens([*special.values(), *markers])
    append_eos(tokenizer, special["eos_token"])
    return tokenizer


def _with_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """A tokenizer with further tokens at the end of its vocabulary."""
    parts = json.loads(tokenizer.to_str())
    vocabulary = parts["model"]["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary.update({token: len(vocabulary) + number for number, token in enumerate(tokens)})
    else:
        vocabulary += [[token, 0.0] for token in tokens]
    return Tokenizer.from_str(json.dumps(parts))


def _frequent(texts: Texts, characters: frozenset[str]) -> set[str]:
    """Those of the characters that occur in at least 1 of 200 texts, such as the narrow spaces of French."""
    counts, size = Counter(), 0
    for text in texts():
        counts.update(characters.intersection(text))
        size += 1
    return {character for character, count in counts.items() if count * RARE >= size}


def _learn_bpe(texts: Texts, arguments: TokenizerArguments, vocab_size: int, name: str) -> Tokenizer:
    """Byte-pair encoding (Sennrich et al. 2016; section 5.1 of the paper)."""
    first = _first_pieces(arguments)
    pieces, merges = _learn_merges(texts, arguments, vocab_size - len(first), name)
    vocabulary = _numbered([*first, *pieces])
    model = models.BPE(vocabulary, merges, unk_token=_unknown(arguments), byte_fallback=arguments.byte_fallback)
    return _subword_tokenizer(model, arguments)


def _learn_wordpieces(texts: Texts, arguments: TokenizerArguments, vocab_size: int, name: str) -> Tokenizer:
    """WordPiece (Wu et al. 2016): a word is split into the longest possible pieces, from left to right.

    The pieces are learned by byte-pair encoding, as is usual. As in that paper, a marker begins each word, which makes
    BERT's `##` inside words unnecessary.
    """
    first = _first_pieces(arguments)
    pieces, _ = _learn_merges(texts, arguments, vocab_size - len(first), name)
    vocabulary = _numbered([*first, *pieces])
    model = models.WordPiece(
        vocabulary, unk_token=_unknown(arguments), continuing_subword_prefix="", max_input_chars_per_word=LONGEST_WORD
    )
    return _subword_tokenizer(model, arguments)


def _learn_unigram(texts: Texts, arguments: TokenizerArguments, vocab_size: int, name: str) -> Tokenizer:
    """Unigram language model (Kudo 2018), learned by SentencePiece from words and their counts."""
    try:
        import sentencepiece
    except ModuleNotFoundError:
        raise InputError(
            "tokenizer.type=unigram needs SentencePiece, which is not installed: pip install sentencepiece"
        ) from None
    normalizer, splitter = _subword_normalizer(arguments), _subword_splitter(arguments)
    words, counts, runs = Counter(), Counter(), Counter()
    for text in _counted(texts, normalizer, counts, name):
        words.update(word for word, _ in splitter.pre_tokenize_str(text))
    first = _first_pieces(arguments)
    size = vocab_size - len(first)
    alphabet = _alphabet(counts, size, name)
    reserved = sorted(SENTENCEPIECE_RESERVED & alphabet.keys())
    learnable = alphabet.keys() - SENTENCEPIECE_RESERVED
    for word, count in words.items():
        for run in "".join(c if c in learnable else "\n" for c in word).split("\n"):
            runs[run] += count
    scores = _sentencepiece_scores(sentencepiece, runs, size - len(reserved))
    lowest = min(scores.values())
    scored = [(piece, 0.0) for piece in first] + list(scores.items()) + [(piece, lowest) for piece in reserved]
    model = models.Unigram(scored, unk_id=first.index(_unknown(arguments)), byte_fallback=arguments.byte_fallback)
    return _subword_tokenizer(model, arguments)


def _sentencepiece_scores(sentencepiece: ModuleType, words: Counter, size: int) -> dict[str, float]:
    """Learn at most `size` pieces with their log-probabilities from words and their counts."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in sorted(words.items()) if word),
        input_format="tsv",
        model_writer=model,
        model_type="unigram",
        vocab_size=size + 1,  # plus SentencePiece's own unknown token
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        split_by_unicode_script=False,
        split_by_number=False,
        max_sentence_length=2**30,
        bos_id=-1,
        eos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    learned = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return {learned.id_to_piece(i): learned.get_score(i) for i in range(1, learned.get_piece_size())}


def _learn_words(texts: Texts, arguments: TokenizerArguments, vocab_size: int, name: str) -> Tokenizer:
    """Whole words: the most frequent ones; all others are unknown."""
    by_rules, unknown = arguments.pre_tokenizer == "rules", _unknown(arguments)
    normalizer = _normalizer(arguments, marks(by_rules))
    trained = Tokenizer(models.WordLevel(unk_token=unknown))
    trained.pre_tokenizer = splitter(by_rules)
    min_frequency = arguments.min_frequency or DEFAULT_MIN_FREQUENCY
    special = list(special_tokens(arguments).values())
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=special, show_progress=False
    )
    trained.train_from_iterator(_counted(texts, normalizer, Counter(), name), trainer)
    vocabulary = trained.get_vocab()
    if len(vocabulary) == len(special):
        raise InputError(
            f"No word of the {name} text occurs {counted(min_frequency, 'time')}. Use more text "
            "or lower tokenizer.min_frequency."
        )
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter(by_rules)
    joined = decoders.Replace(Regex(f" ?{JOINER} ?| $"), "")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(Regex("$"), " "), decoders.Fuse(), joined])
    return tokenizer


LEARNERS = {"bpe": _learn_bpe, "wordpiece": _learn_wordpieces, "unigram": _learn_unigram, "word": _learn_words}


def _learn_merges(
    texts: Texts, arguments: TokenizerArguments, size: int, name: str
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn at most `size` pieces, single characters first, and the merges that form the others, in order."""
    normalizer, counts = _subword_normalizer(arguments), Counter()
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = _subword_splitter(arguments)

    def train(normalized: Iterable[str], **alphabet) -> None:
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=arguments.min_frequency or DEFAULT_MIN_FREQUENCY,
            show_progress=False,
            **alphabet,
        )
        trained.train_from_iterator(normalized, trainer)

    train(_counted(texts, normalizer, counts, name), initial_alphabet=[SPACE])
    alphabet = _alphabet(counts, size, name)
    if len(alphabet) < len(counts.keys() | {SPACE}):
        # With the library's own limit, it would be random which of the equally rare characters are kept.
        train(map(normalizer.normalize_str, texts()), initial_alphabet=list(alphabet), limit_alphabet=len(alphabet))
    model = json.loads(trained.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(pair) for pair in model["merges"]]


def _counted(texts: Texts, normalizer: normalizers.Normalizer, counts: Counter, name: str) -> Iterator[str]:
    """Yield the normalized texts, and count their characters along the way."""
    for text in texts():
        normalized = normalizer.normalize_str(text)
        counts.update(normalized)
        yield normalized
    if all(character.isspace() or character == SPACE for character in counts):
        raise InputError(f"The {name} text is empty: there is nothing to learn a tokenizer from.")


def _alphabet(counts: Counter, size: int, name: str) -> dict[str, None]:
    """The characters that become pieces, sorted: all of them, or the `size` most frequent if there are more."""
    characters = sorted(counts.keys() | {SPACE}, key=lambda c: (c != SPACE, -counts[c], c))
    if len(characters) > size:
        logger.warning(
            "The %s text has %d different characters, but its vocabulary has room for %d. The rarest are left out: "
            "raise tokenizer.vocab_size, or set tokenizer.byte_fallback for the types bpe and unigram.",
            name, len(characters), size,
        )  # fmt: skip
    return dict.fromkeys(sorted(characters[:size]))


def _first_pieces(arguments: TokenizerArguments) -> list[str]:
    return [*special_tokens(arguments).values(), *(BYTES if arguments.byte_fallback else [])]


def _unknown(arguments: TokenizerArguments) -> str:
    return special_tokens(arguments)["unk_token"]


def _numbered(pieces: list[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(pieces)}


def _normalizer(arguments: TokenizerArguments, *further: normalizers.Normalizer) -> normalizers.Normalizer:
    forms = {"nfc": [normalizers.NFC()], "nfkc": [normalizers.NFKC()], "none": []}
    lowercase = [normalizers.Lowercase()] if arguments.lowercase else []
    return normalizers.Sequence([*forms[arguments.normalization], *lowercase, *further])


def _subword_normalizer(arguments: TokenizerArguments) -> normalizers.Normalizer:
    mark = [normalizers.Replace(SPACE, LITERAL_SPACE_MARK), normalizers.Replace(" ", SPACE)]
    if arguments.word_boundary == "after":
        mark.append(normalizers.Replace(Regex(r"\z"), SPACE))
    return _normalizer(arguments, *mark)


def _subword_splitter(arguments: TokenizerArguments) -> pre_tokenizers.PreTokenizer:
    if arguments.pre_tokenizer == "whitespace":
        isolated = [pre_tokenizers.Split(Regex(BRACKET), "isolated")]
    else:
        isolated = [pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)]
    if arguments.word_boundary == "after":
        marked = [pre_tokenizers.Split(SPACE, "merged_with_previous")]
    elif arguments.whitespace == "normalize":
        marked = [pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first")]
    else:
        marked = [
            # Add a space before the text, but not after an added token inside it. A single `Metaspace` would not add
            # it to a text that begins with a space; here, the text's own spaces are already markers.
            pre_tokenizers.Metaspace(replacement=" ", prepend_scheme="first", split=False),
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never"),
        ]
    return pre_tokenizers.Sequence([*marked, pre_tokenizers.Split(Regex(r"\s"), "isolated"), *isolated])


def _subword_tokenizer(model: models.Model, arguments: TokenizerArguments) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = _subword_normalizer(arguments)
    tokenizer.pre_tokenizer = _subword_splitter(arguments)
    bytes_ = [decoders.ByteFallback()] if arguments.byte_fallback else []
    literal = decoders.Replace(LITERAL_SPACE_MARK, SPACE)
    if arguments.word_boundary == "after":
        spaces, last = decoders.Replace(SPACE, " "), decoders.Replace(Regex(r" \z"), "")
        tokenizer.decoder = decoders.Sequence([spaces, *bytes_, decoders.Fuse(), last, literal])
    else:
        tokenizer.decoder = decoders.Sequence([decoders.Metaspace(), *bytes_, decoders.Fuse(), literal])
    return tokenizer


def append_eos(tokenizer: Tokenizer, token: str) -> None:
    """Make a tokenizer end each text, or pair of texts, with a token of its vocabulary."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", token], pair=["$A", "$B", token], special_tokens=[(token, tokenizer.token_to_id(token))]
    )
