import hashlib
import itertools
import logging
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import torch
from transformers import AddedToken, AutoTokenizer

from hf_vaswani import VaswaniTokenizer
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import load_tokenizer, save_tokenizer, side_backends, train_tokenizer
from hf_vaswani.errors import InputError
from hf_vaswani.text.normalization import normalized

from ...conftest import slow_but
from ...invisible import CHANGES, NOTHING_SEEN

PROJECT = Path(__file__).parents[3]
TATOEBA = PROJECT.parent / "shared" / "data" / "tatoeba_en_ar"
TYPES = ("bpe", "unigram", "wordpiece", "word")
SUBWORDS = ("bpe", "unigram", "wordpiece")
WITH_BYTES = ("bpe", "unigram")

PAIRS = [
    ("Ein Hund läuft über die Straße.", "A dog runs across the street."),
    ("Zwei Hunde schlafen; 21 Katzen nicht!", "Two dogs sleep; 21 cats don't!"),
    ("كلب يجري في الشارع، أليس كذلك؟", "A dog (brown) is running – isn't it?"),
    ("مَدْرَسَةٌ كبيرة كـــتاب", "a well-known “school”, 1,234.50 €"),
    ("我们今天去北京大学，好吗？", "L'homme dit : « Bonjour ! »"),
] * 20
# The text is encoded as it is.
UNCHANGED = {"normalization": "none", "whitespace": "keep"}
TEXTS = sorted({side for pair in PAIRS for side in pair})
# None of this occurs in the training text.
STRANGE = [
    "😀 👨‍👩‍👧",
    "Жук",
    "x\ty\r\nz",
    "▁▂▃ a▁b",
    "  two  spaces ",
    " ",
    "",
    "<s> </s> <pad> <unk> <0x41>",
    "\u00a0\u200b\0",
]


KINDS = {
    "bpe": {},
    "bpe with bytes": {"byte_fallback": True, "vocab_size": 500},
    "bpe of pre-tokenized text": {"pre_tokenizer": "whitespace"},
    "bpe markers after words": {"pre_tokenizer": "whitespace", "word_boundary": "after"},
    "lowercase nfkc": {"lowercase": True, "normalization": "nfkc"},
    "unigram": {"type": "unigram"},
    "wordpiece": {"type": "wordpiece"},
    "word": {"type": "word"},
    "word by rules": {"type": "word", "pre_tokenizer": "rules"},
}


def sentences(number: int) -> list[tuple[str, str]]:
    """Pairs of the built-in corpus."""
    return list(itertools.islice(iterate_pairs(TextSource(dataset="built-in", split="test"), ("de", "en")), number))


def learn(**arguments) -> VaswaniTokenizer:
    return train_tokenizer(PAIRS, TokenizerArguments(**{**UNCHANGED, "vocab_size": 300, **arguments}))


def round_trip(tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer(text_target=text)["input_ids"], skip_special_tokens=True)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("type", TYPES)
def test_decoding_restores_the_text(type, joint):
    tokenizer = learn(type=type, joint=joint, min_frequency=None if type == "unigram" else 1)
    for text in TEXTS if joint else {target for _, target in PAIRS}:
        assert round_trip(tokenizer, text) == text


@pytest.mark.parametrize("type", ["bpe", "wordpiece"])
@pytest.mark.parametrize("mark, marked", [("before", "▁{}"), ("after", "{}▁")])
def test_words_of_tokenized_text_keep_their_punctuation_and_digits(type, mark, marked):
    pairs = [("zwei t-shirts , 12 ?", "two t-shirts , 12 ?")] * 20
    arguments = TokenizerArguments(type=type, pre_tokenizer="whitespace", word_boundary=mark, vocab_size=90)
    tokenizer = train_tokenizer(pairs, arguments)
    words = ["two", "t-shirts", ",", "12", "?"]
    assert tokenizer.tokenize("two t-shirts , 12 ?") == [marked.format(word) for word in words]
    assert round_trip(tokenizer, "two t-shirts , 12 ?") == "two t-shirts , 12 ?"


def test_boundary_marker_after_words_lets_a_compound_share_its_last_word():
    pairs = [("baum haus", "haus baum")] * 20
    tokenizer = train_tokenizer(
        pairs, TokenizerArguments(pre_tokenizer="whitespace", word_boundary="after", vocab_size=40)
    )
    assert tokenizer.tokenize("haus") == ["haus▁"] and tokenizer.tokenize("baumhaus")[-1] == "haus▁"


@pytest.mark.parametrize("mark", ["before", "after"])
@pytest.mark.parametrize("type", WITH_BYTES)
def test_no_word_of_tokenized_text_is_mistaken_for_a_special_token_or_byte(type, mark):
    pairs = [("a<pad> [X]b <0x41>", "<0x41> a<pad>")] * 20
    arguments = TokenizerArguments(
        type=type,
        pre_tokenizer="whitespace",
        word_boundary=mark,
        vocab_size=400,
        byte_fallback=True,
        whitespace="keep",
    )
    tokenizer = train_tokenizer(pairs, arguments)
    for text in (*STRANGE, *TEXTS, *pairs[0]):
        assert round_trip(tokenizer, text) == text


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("type", WITH_BYTES)
def test_byte_fallback_restores_any_text(type, joint):
    tokenizer = learn(type=type, joint=joint, vocab_size=500, byte_fallback=True)
    for text in STRANGE + TEXTS:
        assert round_trip(tokenizer, text) == text
        assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]


@pytest.mark.parametrize("joint", slow_but([True, False], True))
@pytest.mark.parametrize("name", KINDS)
def test_what_nobody_sees_changes_no_token_id(name, joint):
    pairs = sentences(200)
    arguments = TokenizerArguments(**{"vocab_size": 300, "joint": joint, "whitespace": "normalize", **KINDS[name]})
    tokenizer = train_tokenizer(pairs, arguments)
    kept = train_tokenizer(pairs, TokenizerArguments(**{**arguments.model_dump(), "whitespace": "keep"}))
    sources, targets = map(list, zip(*pairs))
    expected = kept(sources, text_target=targets)
    for change in (str, *CHANGES.values()):
        encoded = tokenizer(list(map(change, sources)), text_target=list(map(change, targets)))
        assert (encoded["input_ids"], encoded["labels"]) == (expected["input_ids"], expected["labels"])
    assert tokenizer(list(NOTHING_SEEN))["input_ids"] == [tokenizer("")["input_ids"]] * len(NOTHING_SEEN)


@pytest.mark.parametrize("type", SUBWORDS)
def test_changes_in_the_training_text_that_nobody_sees_change_no_vocabulary(type):
    pairs = [pair for pair in sentences(200) if " " in pair[0]]
    changes = [*CHANGES.values()]
    changed = [
        tuple(changes[i % len(changes)](side) if i % 31 == 0 else side for side in pair)
        for i, pair in enumerate(pairs * 5)
    ]
    arguments = TokenizerArguments(type=type, vocab_size=300)
    assert train_tokenizer(changed, arguments).get_vocab() == train_tokenizer(pairs * 5, arguments).get_vocab()


def test_space_in_one_of_200_texts_is_learned_and_a_rarer_one_is_not():
    pairs = [("a b", "c\u202f!"), *[("a b", "c d")] * 99]
    tokenizer = train_tokenizer(pairs, TokenizerArguments(vocab_size=30))
    assert round_trip(tokenizer, "c\u202f!") == "c\u202f!"
    tokenizer = train_tokenizer([*pairs, ("a", "b")], TokenizerArguments(vocab_size=30))
    assert "\u202f" not in tokenizer.get_vocab()
    assert round_trip(tokenizer, "c\u202fd") == "c d"


def test_word_after_an_added_token_keeps_its_marker():
    tokenizer = learn(whitespace="normalize")
    tokenizer.add_tokens([AddedToken("<2en>", normalized=False)])
    assert tokenizer.tokenize("<2en>\u00a0Hund")[1].startswith("▁")
    assert tokenizer.tokenize("Hund \u00a0<2en>")[-2:] == [tokenizer.tokenize("Hund")[-1], "<2en>"]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("whitespace", ["normalize", "keep"])
def test_saved_tokenizer_says_how_it_treats_whitespace(whitespace, joint, tmp_path):
    save_tokenizer(learn(joint=joint, whitespace=whitespace), tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    assert normalized("a\u00a0 b ", loaded) == "a\u00a0 b "
    assert (loaded("Ein\u00a0 Hund ")["input_ids"] == loaded("Ein Hund")["input_ids"]) == (whitespace == "normalize")


@pytest.mark.parametrize("type", SUBWORDS)
@pytest.mark.parametrize("text", ["  ein  Hund ", " ein Hund", "ein Hund ", "ein   Hund", "  "])
def test_spaces_are_kept(type, text):
    assert round_trip(learn(type=type), text) == text


@pytest.mark.parametrize("type", SUBWORDS)
def test_characters_that_libraries_use_as_markers_are_restored(type):
    text = "▁▂▅ a▁b\tc\u00a0d\x1fe\rf\0 \u2028g"
    tokenizer = train_tokenizer([(text, text)], TokenizerArguments(type=type, **UNCHANGED))
    assert round_trip(tokenizer, text) == text


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="needs the parallel text of shared/data")
@pytest.mark.parametrize("type", WITH_BYTES)
def test_real_sentences_are_restored(type):
    sides = [(TATOEBA / f"train.{side}").read_text(encoding="utf-8").splitlines()[:1500] for side in ("ar", "en")]
    arguments = TokenizerArguments(type=type, vocab_size=1500, byte_fallback=True, whitespace="keep")
    tokenizer = train_tokenizer(list(zip(*sides)), arguments)
    for side in ("ar", "en"):
        for text in (TATOEBA / f"test.{side}").read_text(encoding="utf-8").splitlines():
            assert round_trip(tokenizer, text) == unicodedata.normalize("NFC", text)


def test_byte_pairs_are_merged_by_frequency():
    # "aa" occurs four times, all other pairs at most twice, so it comes first after special tokens, letters, and "▁".
    tokenizer = train_tokenizer([("aab aab", "caa caa")], TokenizerArguments(vocab_size=9))
    assert sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)[4:] == ["a", "b", "c", "▁", "aa"]
    assert tokenizer.tokenize("aab") == ["▁", "aa", "b"]


def test_word_pieces_are_matched_longest_first():
    pairs = [("abc abc abc bcd bcd bcd", "ab")]
    tokenizer = train_tokenizer(pairs, TokenizerArguments(type="wordpiece", vocab_size=100))
    assert {"▁abc", "▁bcd"} <= tokenizer.get_vocab().keys()
    assert tokenizer.tokenize("abcd bcdd") == ["▁abc", "d", "▁bcd", "d"]


def test_words_are_split_at_whitespace_and_punctuation():
    tokenizer = learn(type="word", min_frequency=1)
    assert tokenizer.tokenize("A dog (brown) don't…") == ["A", "dog", "(￭", "brown", "￭)", "don", "￭'￭", "t", "<unk>"]


def test_rare_words_are_unknown():
    pairs = [("ein Hund", "a dog"), ("ein Hase", "a hare")]
    tokenizer = train_tokenizer(pairs, TokenizerArguments(type="word"))
    assert sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get) == [
        "<pad>",
        "<s>",
        "</s>",
        "<unk>",
        "a",
        "ein",
    ]
    assert tokenizer("ein Hund")["input_ids"] == [5, 3, 2]


@pytest.mark.parametrize("type", TYPES)
def test_special_tokens_have_the_ids_of_the_default_config(type):
    tokenizer = learn(type=type)
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (
        0, 1, 2, 3,
    )  # fmt: skip
    assert tokenizer("Hund")["input_ids"][-1] == 2
    assert tokenizer("")["input_ids"] == [2]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("type", TYPES)
def test_special_tokens_can_be_renamed(type, joint, tmp_path):
    names = {"unk": "[UNK]", "pad": "[PAD]", "eos": "[EOS]", "bos": "[SOS]"}
    learn(type=type, joint=joint, special_tokens=names).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert [tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token] == [
        "[PAD]", "[SOS]", "[EOS]", "[UNK]",
    ]  # fmt: skip
    for backend in side_backends(tokenizer).values():
        assert [backend.id_to_token(i) for i in range(4)] == ["[PAD]", "[SOS]", "[EOS]", "[UNK]"]
        assert not {"<s>", "</s>", "<pad>", "<unk>"} & backend.get_vocab().keys()
    assert tokenizer("Hund Ж")["input_ids"][-1] == 2 and 3 in tokenizer("Ж")["input_ids"]
    assert tokenizer("[EOS] [UNK]")["input_ids"].count(2) == 1
    ids = tokenizer(text_target="A dog", padding="max_length", max_length=12)["input_ids"]
    assert ids[-1] == 0 and tokenizer.decode(ids, skip_special_tokens=True) == "A dog"


def test_special_tokens_not_given_keep_their_default_names():
    tokenizer = learn(special_tokens={"bos": "<bos>"})
    assert (tokenizer.bos_token, tokenizer.bos_token_id, tokenizer.eos_token) == ("<bos>", 1, "</s>")


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("type", TYPES)
def test_special_tokens_in_a_text_are_ordinary_characters(type, joint, tmp_path):
    learn(type=type, joint=joint).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for encoded in (tokenizer("<s> </s>"), tokenizer(text_target="<s> </s><pad>")):
        assert encoded["input_ids"].count(2) == 1
        assert not {0, 1} & set(encoded["input_ids"])


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("size", [20, 120])
def test_vocabulary_never_exceeds_the_requested_size(type, size):
    tokenizer = learn(type=type, vocab_size=size)
    assert len(tokenizer) <= size
    if type != "word" and size == 120:
        assert len(tokenizer) == 120


def test_target_vocabulary_has_its_own_size():
    tokenizer = learn(joint=False, vocab_size=110, target_vocab_size=70)
    assert (len(tokenizer), tokenizer.target_vocab_size) == (110, 70)


@pytest.mark.parametrize("type", SUBWORDS)
def test_rarest_characters_are_unknown_when_the_vocabulary_is_too_small(type, caplog):
    pairs = [(chr(0x4E00 + i) * (2 if i == 7 else 1), "a") for i in range(300)]
    with caplog.at_level(logging.WARNING):
        tokenizer = train_tokenizer(pairs, TokenizerArguments(type=type, vocab_size=50))
    assert len(tokenizer) <= 50
    assert "302 different characters" in caplog.text and "room for 46" in caplog.text
    known = [3 not in tokenizer(source)["input_ids"] for source, _ in pairs]
    # The space, "a", and the one that occurs twice come first, then those with the lowest code points.
    assert known == [i < 44 for i in range(300)]


@pytest.mark.parametrize("type", TYPES)
def test_unknown_characters_become_unknown_tokens(type):
    assert learn(type=type).unk_token_id in learn(type=type)("Ж")["input_ids"]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("type", TYPES)
def test_reloaded_tokenizer_behaves_the_same(type, joint, tmp_path):
    tokenizer = learn(type=type, joint=joint, lowercase=True, normalization="nfkc", byte_fallback=type in WITH_BYTES,
                      vocab_size=500)  # fmt: skip
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert list(tmp_path.glob("*.py")) == [] if joint else [tmp_path / "tokenization_vaswani.py"]
    assert isinstance(loaded, VaswaniTokenizer) and loaded.is_joint == joint
    for text in STRANGE + TEXTS:
        assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
        assert loaded(text_target=text)["input_ids"] == tokenizer(text_target=text)["input_ids"]
        assert round_trip(loaded, text) == round_trip(tokenizer, text)
    assert round_trip(loaded, "Ａ DOG") == "a dog"


@pytest.mark.parametrize("key", ["additional_special_tokens", "extra_special_tokens"])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("type", TYPES)
def test_added_special_tokens_are_recognized_and_typed_ones_are_text(type, joint, key, tmp_path):
    tokenizer = learn(type=type, joint=joint)
    sizes = len(tokenizer), tokenizer.target_vocab_size
    assert tokenizer.add_special_tokens({key: ["<2en>"]}) == 1
    typed = [learn(type=type, joint=joint)(text_target=text)["input_ids"] for text in ("</s>", "<pad> <s>")]
    for number in range(3):
        for side, new in zip(("text", "text_target"), sizes):
            ids = tokenizer(**{side: "<2en>"})["input_ids"]
            assert ids == [new, tokenizer.eos_token_id]
            for between in tokenizer(**{side: [" <2en> dog", "dog<2en>dog"]})["input_ids"]:
                assert between.count(new) == 1 and between[-1] == tokenizer.eos_token_id
        assert [tokenizer(text_target=text)["input_ids"] for text in ("</s>", "<pad> <s>")] == typed
        assert not {tokenizer.pad_token_id, tokenizer.bos_token_id} & {*typed[0], *typed[1]}
        assert tokenizer.decode(ids, skip_special_tokens=True) == ""
        assert tokenizer.decode(ids) == "<2en></s>" or type == "word"
        assert tokenizer.batch_decode(torch.tensor([ids]), skip_special_tokens=True) == [""]
        tokenizer.save_pretrained(tmp_path / str(number))
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / str(number))


def test_text_is_normalized_to_the_requested_form():
    decomposed, wide = "la\u0308uft", "Ａ"
    forms = {form: learn(normalization=form, vocab_size=500, byte_fallback=True) for form in ("nfc", "nfkc", "none")}
    assert [round_trip(forms[form], decomposed) for form in forms] == ["läuft", "läuft", decomposed]
    assert [round_trip(forms[form], wide) for form in forms] == [wide, "A", wide]


def test_separate_vocabularies_are_learned_from_their_own_side():
    tokenizer = learn(joint=False)
    source, target = tokenizer.get_vocab(), tokenizer.get_target_vocab()
    assert "ß" in source and "ß" not in target
    assert "€" in target and "€" not in source


def digests() -> list[str]:
    """Digests of tokenizers of each type, with and without room for all characters."""
    backends = [learn(type=type, vocab_size=size).backend_tokenizer for type in TYPES for size in (40, 200)]
    return [hashlib.sha256(backend.to_str().encode()).hexdigest() for backend in backends]


@pytest.mark.slow
def test_same_text_gives_the_same_tokenizer_in_every_process():
    other = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import digests; print(*digests())"],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONHASHSEED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    here = digests()
    assert other.stdout.split() == here
    assert len(set(here)) == 8


def test_text_is_read_twice_for_each_vocabulary():
    class Counted:
        readings = 0

        def __iter__(self):
            self.readings += 1
            return iter(PAIRS)

    for type in TYPES:
        for joint, readings in ((True, 2), (False, 4)):
            pairs = Counted()
            train_tokenizer(pairs, TokenizerArguments(type=type, vocab_size=300, joint=joint))
            assert pairs.readings == readings


@pytest.mark.parametrize("type", TYPES)
def test_empty_text_is_rejected(type):
    for pairs in ([], [("", " ")], [("\t", "\u00a0")]):
        with pytest.raises(InputError, match="The training text is empty"):
            train_tokenizer(pairs, TokenizerArguments(type=type))
    with pytest.raises(InputError, match="The source text is empty"):
        train_tokenizer([("", "a"), (" ", "b")], TokenizerArguments(type=type, joint=False))


def test_text_without_a_repeated_word_is_rejected():
    with pytest.raises(InputError, match="No word of the training text occurs 2 times"):
        train_tokenizer([("ein Hund", "a dog")], TokenizerArguments(type="word"))


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"type": "word", "bpe_dropout": 0.1}, "bpe_dropout=0.1 drops merges"),
        ({"type": "unigram", "bpe_dropout": 0.1}, "bpe_dropout=0.1 drops merges"),
        ({"bpe_dropout": 1.0}, r"bpe_dropout must be in \[0, 1\), got 1.0"),
        ({"bpe_dropout": -0.1, "path": "x"}, r"bpe_dropout must be in \[0, 1\)"),
        ({"type": "wordpiece", "byte_fallback": True}, "byte_fallback=True is for the types bpe and unigram"),
        ({"type": "unigram", "min_frequency": 3}, "min_frequency is not used"),
        ({"min_frequency": 0}, "min_frequency must be at least 1"),
        ({"target_vocab_size": 100}, "set tokenizer.joint to false"),
        ({"vocab_size": 0}, "vocab_size must be at least 1"),
        ({"vocab_size": 5}, "vocab_size=5 is too small: 4 special tokens come first; it must be at least 6"),
        ({"vocab_size": 261, "byte_fallback": True}, "4 special tokens and 256 bytes come first; it must be at least"),
        ({"joint": False, "target_vocab_size": 5}, "target_vocab_size=5 is too small"),
        ({"pre_tokenizer": "rules"}, "pre_tokenizer=rules is for the type word"),
        ({"pre_tokenizer": "whitespace", "type": "word"}, "pre_tokenizer=whitespace is for subwords"),
        (
            {"word_boundary": "after"},
            "word_boundary=after is for pre_tokenizer=whitespace, not for pre_tokenizer=punctuation",
        ),
        ({"special_tokens": {"ukn": "[UNK]"}}, "special_tokens.ukn: unknown role; did you mean 'unk'?"),
        ({"special_tokens": {"cls": "[CLS]"}}, "special_tokens.cls: unknown role; choose from pad, bos, eos, unk"),
        ({"special_tokens": {"unk": ["UNK"]}}, r"must be text, got \['UNK'\]; put it in quotes"),
        ({"special_tokens": {"unk": "unk"}}, "must be in brackets"),
        ({"special_tokens": {"unk": "[un k]"}}, "must be in brackets"),
        ({"special_tokens": {"unk": "<0x41>"}}, "must be in brackets"),
        ({"special_tokens": {"unk": "<pad>"}}, "<pad> is given for pad and unk; they must differ"),
        ({"special_tokens": "<pad>"}, "tokenizer.special_tokens must be keys with values, got '<pad>'"),
        ({"vocab_size": "40"}, "tokenizer.vocab_size must be a whole number, got '40'"),
        ({"byte_fallback": 2**31}, "tokenizer.byte_fallback must be true or false, got 2147483648"),
    ],
)
def test_contradictory_arguments_are_rejected(arguments, expected):
    with pytest.raises(InputError, match=expected) as error:
        train_tokenizer(PAIRS, TokenizerArguments(**arguments))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "pairs, error",
    [
        (None, "pairs must be a list"),
        ("a b", "pairs must be a list"),
        ([("a", "b"), ("a", 1)], r"pairs\[1\]"),
        ([("a", "b"), None], r"pairs\[1\]"),
        ([("a", b"b")], r"pairs\[0\]"),
    ],
)
@pytest.mark.parametrize("joint", [True, False])
def test_invalid_pair_is_rejected_with_its_index(pairs, error, joint):
    with pytest.raises(ValueError, match=error):
        train_tokenizer(pairs, TokenizerArguments(joint=joint))


def test_smallest_vocabulary_sizes_work():
    for arguments in ({"vocab_size": 6}, {"vocab_size": 262, "byte_fallback": True}):
        for type in WITH_BYTES:
            assert len(learn(type=type, **arguments)) == arguments["vocab_size"]


def test_added_tokens_within_a_text_preserve_its_spaces():
    tokenizer = learn()
    tokenizer.add_tokens(["<name>"])
    assert round_trip(tokenizer, "A<name> dog <name> runs") == "A<name> dog <name> runs"
    assert tokenizer.tokenize("dog <name> dog") == ["▁dog", "▁", "<name>", "▁dog"]


def test_existing_tokenizer_is_loaded_and_a_missing_one_is_rejected(tmp_path):
    save_tokenizer(learn(), tmp_path / "made")
    assert load_tokenizer(str(tmp_path / "made"))("Hund")["input_ids"] == learn()("Hund")["input_ids"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no tokenizer"):
        load_tokenizer(str(tmp_path / "empty"))
    with pytest.raises(InputError, match="absent does not exist"):
        load_tokenizer(str(tmp_path / "absent"))
    with pytest.raises(InputError, match=f"tokenizer.json is a file. Specify the folder that it is in: {tmp_path}"):
        load_tokenizer(str(tmp_path / "made" / "tokenizer.json"))


@pytest.mark.parametrize("joint", [True, False])
def test_loaded_tokenizer_is_saved_with_the_same_files(joint, tmp_path):
    save_tokenizer(learn(joint=joint), tmp_path / "made")
    save_tokenizer(load_tokenizer(str(tmp_path / "made")), tmp_path / "again")
    made, again = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("made", "again")
    )
    assert again == made


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file on which nothing can be written")
def test_saving_a_tokenizer_to_a_full_disk_is_an_os_error(tmp_path):
    (tmp_path / "tokenizer.json").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        save_tokenizer(learn(), tmp_path)


def test_both_sides_have_a_backend():
    joint, separate = learn(), learn(joint=False)
    assert side_backends(joint)["source"] is side_backends(joint)["target"]
    assert side_backends(separate)["target"].get_vocab_size() == separate.target_vocab_size
