"""What stays as it is in translations, with placeholders that the model has learned and without."""

import pytest
from transformers import pipeline

from hf_vaswani.core.sentence_splitting import Piece
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.text.markers import KEEP_TOKENS
from hf_vaswani.translator.segments import MASK, Segment
from hf_vaswani.translator.steps.kept_spans import insert_spans, lost, without_spans

from ..conftest import tiny_model

SEARCH = {"num_beams": 4, "max_new_tokens": 24}
LINES = ["a dog runs to 5 km.", "the man (here) sees it at http://www.de: x, y @ b?"] * 2
URL, MAIL = "http://a.de/x", "b@b.de"
KINDS = ["url", "email", "emoji", "placeholder"]


def translator_of(markers):
    tokenizer = train_tokenizer(list(zip(LINES, LINES)), TokenizerArguments(vocab_size=100), markers)
    return pipeline("translation", model=tiny_model(vocab_size=len(tokenizer)), tokenizer=tokenizer, **SEARCH)


@pytest.fixture(scope="module")
def translator():
    return translator_of((list(KEEP_TOKENS), list(KEEP_TOKENS)))


@pytest.fixture(scope="module")
def plain():
    return translator_of(([], []))


def texts_of(results):
    return [result["translation_text"] for result in results]


def test_all_of_the_n_best_have_each_kept_text_once(translator):
    for result in translator(f"the man {URL} sees 😀 {MAIL}", keep=KINDS, n_best=3):
        text = result["translation_text"]
        assert [text.count(kept) for kept in (URL, MAIL, "😀")] == [1, 1, 1]


def test_what_has_spaces_beside_it_in_the_source_has_them_in_translations(translator):
    for result in translator(f"{MAIL} man {URL} sees 😀 it", keep=KINDS, n_best=4):
        for kept in (URL, MAIL, "😀"):
            before, after = result["translation_text"].split(kept)
            assert not before[-1:].isalnum() and not after[:1].isalnum()


def test_the_same_text_twice_is_kept_twice(translator):
    [text] = texts_of(translator(f"{URL} sees {URL}", keep="url"))
    assert text.count(URL) == 2


def test_text_without_anything_to_keep_is_translated_as_ever(translator):
    assert translator("a dog runs.", keep=KINDS) == translator("a dog runs.")


def test_placeholders_are_never_in_translations(translator):
    names = [*KEEP_TOKENS, *map(chr, range(0xFDD0, 0xFDF0))]
    for text in texts_of(translator([f"{name} runs" for name in names])):
        assert not any(name in text for name in names)


def test_text_of_nothing_else_stays_as_it_is(translator):
    texts = ["{count}", f"{URL}: 😀", "…"]
    assert texts_of(translator(texts[:2], keep=KINDS, return_scores=True)) == texts[:2]


def test_sentences_do_not_end_in_what_is_kept(translator):
    [text] = texts_of(translator("it sees Mr.X!Y. A dog runs.", keep=r"Mr\.X!Y", split_sentences=True))
    assert text.count("Mr.X!Y") == 1


def test_more_than_ten_are_kept(translator):
    kept = [f"x{letter}@b.de" for letter in "abcdefghijkl"]
    [text] = texts_of(translator(" ".join(kept) + " runs", keep="email", max_new_tokens=120))
    # The tokenizer cannot spell the letters of the last two.
    assert all(text.count(each) == 1 for each in kept[:10])


@pytest.mark.parametrize("kept", [URL, MAIL, "😀", "{name}"])
def test_model_without_placeholders_keeps_also_what_its_tokenizer_cannot_spell(plain, kept):
    [result] = plain(f"the man {kept} runs", keep=KINDS, on_unmet="error", return_warnings=True)
    assert result["translation_text"].count(kept) == 1 and "lacks" not in result.get("warning", "")


def test_terms_go_with_what_is_kept(translator):
    [text] = texts_of(translator(f"the man {URL} runs", keep="url", terms={"man": "dog"}))
    assert text.count(URL) == 1 and "dog" in text


def test_alignments_name_what_was_kept(translator):
    [result] = translator(f"the man {URL} runs", keep="url", return_alignments=True)
    assert URL in result["source_tokens"] and URL in result["target_tokens"]


def test_keep_may_be_given_once_for_all_calls(translator):
    again = pipeline("translation", model=translator.model, tokenizer=translator.tokenizer, keep="url", **SEARCH)
    assert URL in texts_of(again(f"a dog {URL} runs"))[0]


def test_token_ids_cannot_be_kept(translator):
    with pytest.raises(ValueError, match="^keep needs translations as text"):
        translator("a dog", keep="url", return_tensors=True)


def test_samples_have_what_is_to_be_kept(translator, plain):
    for each in (translator, plain):
        [text] = texts_of(each(f"a dog {URL}", keep="url", do_sample=True, num_beams=1))
        assert text.count(URL) == 1


@pytest.mark.parametrize(
    ("contents", "translation", "expected"),
    [
        (["3 km", "3 km/h"], "at 3 km/h", ["'3 km'"]),
        (["3 km", "3 km/h"], "3 km at 3 km/h", []),
        (["{a}", "{a}"], "only {a}", ["'{a}'"]),
        (["{a}", "{a}", "{a}"], "only {a}", ["'{a}', 2 times"]),
        (["http://a.de/X"], "see http://a.de/x", ["'http://a.de/X'"]),
        (["5 km"], "15 km", []),
        (["{a  b}"], "{a b}", ["'{a  b}'"]),
        ([" ", "😀"], "😀", []),
    ],
)
def test_kept_text_is_lost_unless_it_stands_there_exactly_and_often_enough(contents, translation, expected):
    assert [str(each) for each in lost(contents, translation)] == expected


def test_model_without_placeholders_keeps_all_of_several(plain):
    [text] = texts_of(plain("the man {a} sees {a} Щ-1 {b}", keep=["placeholder", "Щ-1"]))
    assert [text.count(kept) for kept in ("{a}", "Щ-1", "{b}")] == [2, 1, 1]


@pytest.mark.parametrize(
    ("source", "translation", "links", "expected"),
    [
        ("Siehe {} heute.", "See today.", {(0, 0), (1, 1), (2, 2)}, "See {} today."),
        ("{} hat geschrieben.", "wrote.", {(0, 0), (1, 0), (2, 1)}, "{} wrote."),
        ("Heute kam {}.", "It came today.", {(0, 2), (1, 1), (2, 3)}, "It came today {}."),
        ("Klick ({}) hier", "Click ( ) here", {(0, 0), (1, 1), (2, 2), (3, 3)}, "Click ( {}) here"),
        ("Ja. {}", "Yes.", {(0, 0), (1, 1)}, "Yes. {}"),
        ("Datei{}", "file", {(0, 0)}, "file{}"),
        ("vor {} {} nach", "before after", {(0, 0), (1, 1)}, "before {} {} after"),
        ("看 {} 书", "read books", None, "read {} books"),
        ("{}", "", set(), "{}"),
    ],
)
def test_spans_are_inserted_between_the_same_words_with_the_same_spaces(source, translation, links, expected):
    segment = Segment(
        0, Piece(source), text_with_masks=source.replace("{}", MASK), contents=["{}"] * source.count("{}")
    )
    text, gaps = without_spans(segment)
    assert insert_spans(text, gaps, translation, links, segment.contents) == expected
