import copy
import pickle
import shutil

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_vaswani import VaswaniTokenizer
from hf_vaswani.core.tokenization_vaswani import fold_capitals, leading_marks
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS, TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer

from ..conftest import tiny_config, word_tokenizer

SOURCE_WORDS, TARGET_WORDS = ["ein", "Hund", "läuft"], ["runs", "dog", "a", "the"]


@pytest.fixture
def two_vocabularies():
    return VaswaniTokenizer.from_backends(word_tokenizer(SOURCE_WORDS), word_tokenizer(TARGET_WORDS), **SPECIAL_TOKENS)


def assert_has_two_vocabularies(tokenizer):
    encoded = tokenizer(["ein Hund läuft"], text_target=["a dog runs"])
    assert encoded["input_ids"] == [[4, 5, 6, 2]]
    assert encoded["labels"] == [[6, 5, 4, 2]]
    assert "token_type_ids" not in encoded
    assert tokenizer("a dog")["input_ids"] == [3, 3, 2]
    assert tokenizer.decode([6, 5, 4, 2], skip_special_tokens=True) == "a dog runs"
    assert tokenizer.batch_decode([[7, 5, 2, 0]], skip_special_tokens=True) == ["the dog"]
    assert (len(tokenizer), tokenizer.target_vocab_size) == (7, 8)
    assert tokenizer.get_target_vocab()["runs"] == 4


def test_text_and_text_target_use_their_own_vocabularies(two_vocabularies):
    assert_has_two_vocabularies(two_vocabularies)


def test_second_text_is_not_joined_to_the_source(two_vocabularies):
    for arguments, named in ((("a", "b"), {}), (("a",), {"text_pair": "b"})):
        with pytest.raises(ValueError, match="Give the translation as text_target"):
            two_vocabularies(*arguments, **named)


def test_both_vocabularies_survive_repeated_saving_and_loading(two_vocabularies, tmp_path):
    two_vocabularies.save_pretrained(tmp_path / "once")
    VaswaniTokenizer.from_pretrained(tmp_path / "once").save_pretrained(tmp_path / "twice")
    assert_has_two_vocabularies(VaswaniTokenizer.from_pretrained(tmp_path / "twice"))


def test_auto_tokenizer_finds_both_vocabularies(two_vocabularies, tmp_path):
    tiny_config().save_pretrained(tmp_path)
    two_vocabularies.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert type(loaded) is VaswaniTokenizer
    assert_has_two_vocabularies(loaded)


def test_loaded_tokenizer_no_longer_needs_its_folder(two_vocabularies, tmp_path):
    two_vocabularies.save_pretrained(tmp_path / "folder")
    loaded = VaswaniTokenizer.from_pretrained(tmp_path / "folder")
    shutil.rmtree(tmp_path / "folder")
    assert_has_two_vocabularies(loaded)


def test_copies_and_pickles_keep_both_vocabularies(two_vocabularies):
    assert_has_two_vocabularies(copy.deepcopy(two_vocabularies))
    assert_has_two_vocabularies(pickle.loads(pickle.dumps(two_vocabularies)))


def test_special_tokens_with_different_ids_in_the_target_are_rejected():
    target = word_tokenizer(TARGET_WORDS)
    source = word_tokenizer(SOURCE_WORDS)
    shifted = {"pad_token": "runs", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    with pytest.raises(ValueError, match="same id in source and target vocabulary: runs"):
        VaswaniTokenizer.from_backends(source, target, **shifted)


def test_without_a_target_tokenizer_the_source_serves_both_sides(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = VaswaniTokenizer.from_pretrained(tmp_path)
    assert loaded(["w1"], text_target=["w1"])["labels"] == [[5, 2]]


def test_added_tokens_reach_both_vocabularies_and_survive_saving(two_vocabularies, tmp_path):
    assert two_vocabularies.add_tokens(["<name>", "dog"]) == 2  # the target already has "dog"
    two_vocabularies.add_special_tokens({"extra_special_tokens": ["<2en>"]})
    two_vocabularies.save_pretrained(tmp_path)
    for tokenizer in (two_vocabularies, AutoTokenizer.from_pretrained(tmp_path)):
        assert tokenizer("ein <name> dog <2en>")["input_ids"] == [4, 7, 8, 9, 2]
        assert tokenizer(text_target="a<name> dog <2en>")["input_ids"] == [6, 8, 5, 9, 2]
        assert (len(tokenizer), tokenizer.target_vocab_size) == (10, 10)
        assert tokenizer.decode([6, 8, 5, 9, 2], skip_special_tokens=True).split() == ["a", "<name>", "dog"]


def test_special_token_must_have_the_same_id_in_both_vocabularies(two_vocabularies):
    for name in ("<sep>", "dog"):
        with pytest.raises(ValueError, match=f"same id in source and target vocabulary: {name}"):
            two_vocabularies.add_special_tokens({"sep_token": name})
    assert_has_two_vocabularies(two_vocabularies)
    two_vocabularies.add_special_tokens({"sep_token": "</s>"})
    assert two_vocabularies.sep_token_id == 2


def test_adding_tokens_without_a_target_tokenizer_adds_them_once(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = VaswaniTokenizer.from_pretrained(tmp_path)
    loaded.add_tokens(["<name>"])
    assert len(loaded) == loaded.target_vocab_size == len(tokenizer) + 1


def test_special_tokens_in_a_text_are_split_on_both_sides_on_request(tmp_path):
    backends = word_tokenizer(SOURCE_WORDS), word_tokenizer(TARGET_WORDS)
    VaswaniTokenizer.from_backends(*backends, **SPECIAL_TOKENS, split_special_tokens=True).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for backend in loaded.backends.values():
        assert backend.encode_special_tokens
        assert backend.encode("<s>x").ids == [3, 2]


def test_decoding_does_not_interfere_with_other_threads(two_vocabularies, monkeypatch):
    seen = []
    decode = PreTrainedTokenizerFast._decode

    def watched(tokenizer, *args, **kwargs):
        # What another thread would get in the meantime.
        seen.append(two_vocabularies("ein Hund läuft")["input_ids"])
        return decode(tokenizer, *args, **kwargs)

    monkeypatch.setattr(PreTrainedTokenizerFast, "_decode", watched)
    assert two_vocabularies.decode([6, 5, 4]) == "a dog runs"
    assert seen == [[4, 5, 6, 2]]


@pytest.mark.parametrize("text, folded", [
    ("THE DOG, RUNNING. É", "the dog, running. é"), ("NASA", "NASA"), ("NASA 9", "NASA 9"), ("A Dog", "A Dog"),
    ("1 2", "1 2"), ("DON'T", "DON'T"), ("\u8fd9 IBM \u7535", "\u8fd9 IBM \u7535"),
    ("DER \ufddc hound\ufddd", "der \ufddc hound\ufddd"), ("THE \ufddc Hund\ufddd RUNS", "the \ufddc Hund\ufddd runs"),
])  # fmt: skip
def test_several_words_in_capitals_become_lower_case(text, folded):
    assert fold_capitals(text) == folded


def test_sources_in_capitals_are_read_as_lower_case_on_request(tmp_path):
    pairs = [("the dog runs", "THE DOG RUNS")] * 2
    for arguments in (TokenizerArguments(vocab_size=60), TokenizerArguments(vocab_size=60, joint=False)):
        train_tokenizer(pairs, arguments, folds_capitals=True).save_pretrained(tmp_path)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path)
        lower, upper = tokenizer(text_target=["the dog", "THE DOG"])["input_ids"]
        assert lower != upper
        both = tokenizer(["the dog", "THE DOG"], text_target=["the dog", "THE DOG"])
        assert both["input_ids"] == tokenizer(["the dog"] * 2)["input_ids"] and both["labels"] == [lower, upper]
        assert tokenizer.encode("THE DOG") == tokenizer("the dog")["input_ids"]
        plain = train_tokenizer(pairs, arguments)
        assert plain("THE DOG")["input_ids"] != plain("the dog")["input_ids"]


@pytest.fixture
def marked():
    """A tokenizer with tokens of two target languages and of a tag."""
    tokenizer = VaswaniTokenizer(tokenizer_object=word_tokenizer(TARGET_WORDS), **SPECIAL_TOKENS)
    tokenizer.add_tokens([">>de<<", ">>fr<<", "<law>"])
    return tokenizer


@pytest.mark.parametrize(
    ("text", "marks"),
    [(">>de<< a dog", ">>de<< "), ("<law> a dog", "<law> "), (">>fr<<<law>a dog", ">>fr<<<law>"), ("a >>de<< dog", ""),
     (">>es<< a dog", ""), ("<b> a dog", ""), ("<unk> a dog", "")],
)  # fmt: skip
def test_marks_of_a_text_are_tokens_of_a_language_or_a_tag(marked, text, marks):
    assert leading_marks(marked, text) == marks


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("a dog", [">>fr<<", "a", "dog"]), (">>de<< a", [">>de<<", "a"]), ("<law> a", [">>fr<<", "<law>", "a"]),
     (">>es<< a", [">>fr<<", "<unk>", "a"])],
)  # fmt: skip
def test_target_language_is_written_unless_the_text_names_one(marked, text, tokens):
    marked.tgt_lang = "fr"
    for tokenizer in (marked, pickle.loads(pickle.dumps(marked)), copy.deepcopy(marked)):
        assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == [*tokens, "</s>"]


def test_tokens_that_are_added_later_leave_the_languages(marked):
    marked.tgt_lang = "de"
    marked.add_special_tokens({"extra_special_tokens": ["<new>"]})
    assert marked.supported_language_codes == [">>de<<", ">>fr<<"]
    assert marked.convert_ids_to_tokens(marked("a <new>")["input_ids"]) == [">>de<<", "a", "<new>", "</s>"]
