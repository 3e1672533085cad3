"""Sources with languages of their own: directions, the marks in their texts, how often each is drawn."""

from collections import Counter
from types import SimpleNamespace

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.arguments import DataArguments
from hf_vaswani.training.setup.splits import model_directions, model_languages, model_marks, own_sources, parse_sources
from hf_vaswani.training.setup.training_batches import Reweighted, tokenizer_text

from ..helpers import splits_of


@pytest.fixture
def source(write_lines):
    """Makes the entry of a source of some pairs."""

    def make(name, size=20, **keys):
        sides = {side: write_lines(f"{name}.{side}", [f"{name} {side} {n}" for n in range(size)])
                 for side in ("source", "target")}  # fmt: skip
        return {**sides, "source_language": "es", **keys}

    return make


def data_of(*train, test=(), **keys):
    return DataArguments(train=list(train), test=list(test) or None, **{"validation_share": 0.2, **keys})


def test_sources_of_several_target_languages_begin_with_the_mark_of_theirs(source):
    data = data_of(source("a", target_language="gn"), source("b", target_language="aym"))
    sources = {text.split()[0] + " " + text.split()[1] for text, _ in splits_of(data).train}
    assert sources == {">>gn<< a", ">>aym<< b"}
    assert model_directions(data) == [("es", "gn"), ("es", "aym")]
    assert model_languages(data) == ("es", None)
    assert model_marks(data) == [">>gn<<", ">>aym<<"]


def test_sources_of_one_target_language_have_no_mark(source):
    data = data_of(
        source("a", source_language="gn", target_language="es"),
        source("b", source_language="aym", target_language="es"),
    )
    assert {text.split()[0] for text, _ in splits_of(data).train} == {"a", "b"}
    assert model_marks(data) == []


def test_tag_follows_the_mark(source):
    data = data_of(source("a", target_language="gn", tag="bt"), source("b", target_language="aym"))
    starts = {" ".join(text.split()[:3]) for text, _ in splits_of(data).train}
    assert starts == {">>gn<< <bt> a", ">>aym<< b source"}
    assert model_marks(data) == [">>gn<<", ">>aym<<", "<bt>"]


def test_source_in_both_directions_is_read_twice_and_its_pairs_are_held_out_in_both(source):
    splits = splits_of(data_of(source("a", target_language="gn", both_directions=True)))
    assert set(splits.validations) == {"es-gn", "gn-es"}
    there = {tuple(text.split()[1:]) for text, _ in splits.validations["es-gn"]}
    back = {tuple(text.split()) for _, text in splits.validations["gn-es"]}
    assert there and there == back
    assert len(splits.train) + len(splits.validation) == 40
    assert all(text.startswith(">>es<< a target") for text, _ in splits.validations["gn-es"])
    assert not set(splits.train) & set(splits.validation)


def test_reversed_text_has_the_marks_of_its_new_targets(source):
    data = data_of(
        source("a", target_language="gn", both_directions=True), source("b", target_language="aym"), reversed=True
    )
    assert model_directions(data) == [("gn", "es"), ("es", "gn"), ("aym", "es")]
    assert {" ".join(text.split()[:3]) for text, _ in splits_of(data).train} == {
        ">>es<< a target", ">>gn<< a source", ">>es<< b target"
    }  # fmt: skip


def test_test_sets_are_named_after_their_directions(source):
    tests = [source("t", 3, target_language="gn"), source("u", 4, target_language="aym")]
    more = {"web": [source("w", 5, target_language="gn")]}
    splits = splits_of(
        data_of(source("a", target_language="gn"), source("b", target_language="aym"), test=tests, tests=more)
    )
    assert {name: len(pairs) for name, pairs in splits.test_sets.items()} == {"es-gn": 3, "es-aym": 4, "web-es-gn": 5}
    assert splits.test_sets["es-gn"][0] == (">>gn<< t source 0", "t target 0")


def test_temperature_draws_directions_by_a_root_of_their_size(source):
    train = [
        source("a", 10, target_language="gn"),
        source("b", 70, target_language="gn"),
        source("c", 5, target_language="aym"),
    ]
    weights = splits_of(data_of(*train, temperature=2, validation_share=None, validation=train[:1])).weights
    shares = [weight / sum(weights) for weight in weights]
    gn, aym = 80**0.5, 5**0.5
    assert shares == pytest.approx([gn / 8 / (gn + aym), gn * 7 / 8 / (gn + aym), aym / (gn + aym)])


def test_weights_divide_a_direction_s_share_with_a_temperature(source):
    train = [
        source("a", 10, target_language="gn", weight=3),
        source("b", 90, target_language="gn", weight=1),
        source("c", 100, target_language="aym", weight=5),
    ]
    validation = [source("v", target_language="gn")]
    weights = splits_of(data_of(*train, temperature=1, validation_share=None, validation=validation)).weights
    assert [weight / sum(weights) for weight in weights] == pytest.approx([3 / 8, 1 / 8, 1 / 2])


def test_vocabulary_is_learned_from_small_sources_repeated(source):
    train = [source("a", 40, target_language="gn"), source("c", 10, target_language="aym")]
    splits = splits_of(data_of(*train, temperature=2, validation_share=None, validation=train[:1]))
    counts = Counter(text.split()[1] for text, _ in Reweighted(splits.train, splits.weights))
    assert counts == {"a": 40, "c": 20}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_language": None}, "source_language is missing"),
        ({"target_language": "es"}, "source_language and target_language are both es"),
        ({"target_language": "spa", "source_language": "qu"}, "es and spa name one language"),
        ({"tag": "a b"}, "tag must have only letters"),
        ({"both_directions": "yes"}, "must be true or false"),
        ({"target_language": "a language"}, "'a language' is not the code of a language"),
    ],
)
def test_wrong_languages_are_one_error(source, changes, message):
    entry = {**source("b", target_language="aym"), **changes}
    data = data_of(source("a", target_language="gn"), entry)
    if "spa" in message:
        pytest.importorskip("langcodes")
    with pytest.raises(InputError, match=message) as error:
        for entries in parse_sources(data).values():
            for each in entries:
                list(splits_of(data).train or [each])
    assert len(set(str(error.value).replace("data.validation", "data.train").split("\n"))) == 1


def test_test_set_of_a_direction_that_is_not_trained_is_refused(source):
    data = data_of(
        source("a", target_language="gn"),
        source("b", target_language="aym"),
        test=[source("t", target_language="nah"), source("u", target_language="gn")],
    )
    with pytest.raises(InputError, match="es to nah is not among the directions of data.train"):
        parse_sources(data)


def test_direction_without_a_test_set_is_refused(source):
    data = data_of(
        source("a", target_language="gn"), source("b", target_language="aym"), test=[source("t", target_language="gn")]
    )
    with pytest.raises(InputError, match="data.test has no source for es to aym"):
        parse_sources(data)


def test_text_that_has_a_mark_is_refused_with_its_line(source, write_lines):
    entry = source("b", target_language="aym")
    entry["source"] = write_lines("marked", ["fine"] * 12 + ["not >>gn<< fine"] + ["fine"] * 7)
    with pytest.raises(InputError, match="line 13: the text has >>gn<<"):
        splits_of(data_of(source("a", target_language="gn"), entry))


def test_one_table_with_a_column_for_each_language_is_read_for_each_direction(tmp_path):
    table = tmp_path / "all.tsv"
    rows = [f"es {n}\tgn {n}\tay {n}\n" for n in range(20)]
    table.write_text("es\tgn\tay\n" + "".join(rows), encoding="utf-8")
    entry = {"file": str(table), "target_language": "es"}
    data = data_of({**entry, "source_language": "gn"}, {**entry, "source_language": "ay"})
    assert Counter(text.split()[0] for text, _ in splits_of(data).train).keys() == {"gn", "ay"}
    # Each by itself, after the other was put into the cache.
    for code in ("gn", "ay"):
        one = data_of({**entry, "source_language": code})
        assert {text.split()[0] for text, _ in splits_of(one).train} == {code}


def test_held_out_text_has_marks_if_other_text_brings_the_second_target(source, tmp_path):
    made = tmp_path / "made.jsonl"
    made.write_text('{"source": "made", "target": "made"}\n', encoding="utf-8")
    text = {"own": None, str(made): {"source_language": "gn", "target_language": "es"}}
    tests = [source("t", 3, target_language="gn"), source("u", 3, source_language="gn", target_language="es")]
    splits = splits_of(data_of(source("a", target_language="gn"), text=text, test=tests))
    assert {text.split()[0] for text, _ in splits.validation} == {">>gn<<"}
    assert {text.split()[0] for text, _ in splits.train} == {">>gn<<", ">>es<<"}
    assert set(splits.test_sets) == {"es-gn", "gn-es"}


def test_validation_in_both_directions_needs_a_model_of_both(source):
    data = DataArguments(
        train=[source("a", target_language="gn")],
        validation=[source("v", target_language="gn", both_directions=True)],
    )
    with pytest.raises(InputError, match="gn to es is not among the directions of data.train"):
        parse_sources(data)


def test_a_sentence_of_the_shared_language_is_held_out_of_all_sources(source, write_lines):
    verses = write_lines("verses", [f"verse {n}" for n in range(200)])
    train = [source(code, 200, target_language=code, both_directions=True) for code in ("gn", "aym")]
    for entry in train:
        entry["source"] = verses
    splits = splits_of(data_of(*train))
    held_out = {" ".join(text.split()[-2:]) for name in ("es-gn", "es-aym") for text, _ in splits.validations[name]}
    trained = {" ".join(text.split()[-2:]) for text, _ in splits.train if "verse" in text}
    assert len(held_out) > 20 and not held_out & trained


def test_marks_can_be_set_for_a_single_target(source):
    data = data_of(source("a", target_language="gn"), mark_targets=True)
    assert {text.split()[0] for text, _ in splits_of(data).train} == {">>gn<<"}


def test_sources_of_files_are_plain_and_in_their_own_direction(source):
    train = [source(code, target_language=code, both_directions=True, weight=2) for code in ("gn", "aym")]
    own, _ = own_sources(data_of(*train, reversed=True))
    assert (own.prefix, own.reversed, own.weight) == ("", False, None)


def test_vocabulary_with_folded_capitals_is_learned_without_marks(source):
    train = [source("a", target_language="gn_Latn"), source("b", target_language="aym")]
    data = data_of(*train)
    recipe = SimpleNamespace(data=data, augmentation=SimpleNamespace(uppercase=1.0))
    assert {text.split()[0] for text, _ in tokenizer_text(recipe, splits_of(data))} == {"a", "b"}
