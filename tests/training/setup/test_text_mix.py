"""Training on more than a recipe's own text: the same text in the reverse direction, and files of translated pairs."""

import gzip
import json

import pytest

from hf_vaswani.data.sources.text_source import TextSource, digest, iterate_pairs
from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.arguments import DataArguments
from hf_vaswani.training.setup.splits import model_languages, parse_sources

from ..helpers import splits_of

PAIRS = [(f"Satz {i}", f"sentence {i}") for i in range(40)]


@pytest.fixture
def data(write_lines, tmp_path):
    """A function that returns the `data` section of a text, with changes, and a file of translated pairs."""
    sides = {f"train_{name}": write_lines(f"t.{name}", [pair[side] for pair in PAIRS])
             for side, name in enumerate(("source", "target"))}  # fmt: skip
    made = tmp_path / "pairs.jsonl.gz"
    with gzip.open(made, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"source": f"Satz {i}", "target": f"made {i}"}) + "\n" for i in range(40))
    return lambda **changes: DataArguments(**{**sides, "validation_share": 0.2, **changes}), str(made)


def test_reversed_source_has_its_sides_swapped_in_any_format(data, tmp_path):
    own = parse_sources(data[0]())["train"][0]
    swapped = TextSource(source=own.source, target=own.target, reversed=True)
    assert list(iterate_pairs(swapped, (None, None))) == [(target, source) for source, target in PAIRS]
    assert digest(swapped) != digest(own)
    table = tmp_path / "t.tsv"
    table.write_text("de\ten\n" + "".join(f"{source}\t{target}\n" for source, target in PAIRS))
    columns = TextSource(file=str(table), reversed=True)
    assert next(iterate_pairs(columns, ("de", "en"))) == ("sentence 0", "Satz 0")


def test_held_out_pairs_are_not_trained_on_in_either_direction(data):
    splits = splits_of(data[0](text=["own", "reversed"]))
    held_out, train = set(splits.validation), list(splits.train)
    assert held_out and held_out == set(splits_of(data[0]()).validation)
    kept = [pair for pair in PAIRS if pair not in held_out]
    assert train == [*kept, *((target, source) for source, target in kept)]


def test_translated_pairs_are_all_trained_on_and_none_is_held_out(data):
    make, made = data
    splits = splits_of(make(text={"own": 2, made: 1}))
    assert len(splits.validation) + len(splits.train) == 80
    assert all("made" not in target for _, target in splits.validation)
    assert [target for _, target in splits.train if "made" in target] == [f"made {i}" for i in range(40)]
    assert splits.weights == [2.0, 1.0]


def test_validation_pairs_come_from_the_own_text_even_if_it_is_not_trained_on(data):
    make, made = data
    held_out = splits_of(make()).validation
    for text in ([made], {"reversed": 1, made: 1}):
        assert splits_of(make(text=text)).validation == held_out
    swapped = splits_of(make(text=[made], reversed=True))
    assert swapped.validation == [(target, source) for source, target in held_out]


def test_reverse_direction_swaps_all_texts_and_the_languages(data):
    make, made = data
    section = make(text=["own", made], reversed=True, source_language="de", target_language="en")
    splits = splits_of(section)
    assert all(source.startswith(("sentence", "made")) for source, _ in splits.train)
    assert all(source.startswith("sentence") for source, _ in splits.validation)
    assert model_languages(section) == ("en", "de")
    assert model_languages(make(text=["own", "reversed"], source_language="de", target_language="en")) == (None, None)


def test_weight_of_the_own_text_is_divided_among_its_sources(data, write_lines):
    first, second = (
        {"source": write_lines(f"{n}.a", ["x"]), "target": write_lines(f"{n}.b", ["y"]), "weight": n} for n in (1, 3)
    )
    section = DataArguments(train=[first, second], validation=[{"file": "v.tsv"}], text={"own": 2, "reversed": 1})
    weights = [(source.reversed, source.weight) for source in parse_sources(section)["train"]]
    assert weights == [(False, 0.5), (False, 1.5), (True, 0.25), (True, 0.75)]
    plain = [{name: path for name, path in source.items() if name != "weight"} for source in (first, second)]
    with pytest.raises(InputError, match="give each source of data.train a weight"):
        parse_sources(DataArguments(train=plain, text={"own": 2, "reversed": 1}))


def test_parts_without_a_weight_keep_those_of_their_sources(data, write_lines):
    own = {"source": write_lines("own.a", ["x"]), "target": write_lines("own.b", ["y"]), "weight": 3}
    pairs = {"weight": 2, "tag": "bt"}

    def weights(**keys):
        return [source.weight for source in parse_sources(DataArguments(**keys))["train"]]

    assert weights(train=[own], text={"own": None, "x.jsonl": pairs}) == [3, 2]
    assert weights(train=[own], text=["own", "reversed"]) == [3, 3]
    plain = [{key: own[key] for key in ("source", "target")}]
    assert weights(train=plain, text={"own": None, "x.jsonl": {"tag": "bt"}}) == [None, None]
    with pytest.raises(InputError, match="give all parts a weight, or none"):
        weights(train=plain, text={"own": None, "x.jsonl": pairs})
    with pytest.raises(InputError, match="give all parts a weight, or none"):
        weights(train=[own], text=["own", "x.jsonl"])


def test_file_of_pairs_may_have_a_tag(data):
    make, made = data
    splits = splits_of(make(text={"own": 2, made: {"weight": 1, "tag": "bt"}}))
    sources = {"made" in target: source.startswith("<bt> Satz") for source, target in splits.train}
    assert sources == {False: False, True: True}
    assert splits.weights == [2.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"own": {"weight": 1, "tag": "a"}}, "own has only a weight"),
        ({"own": {"tag": "a"}}, "own has only a weight"),
        ({"own": None, "x.jsonl": {"tga": "bt"}}, "unknown key 'tga'"),
        ({"own": 1, "x.jsonl": {"weight": 1, "tags": "bt"}}, "unknown key 'tags'"),
        ({"own": 1, "x.jsonl": {"weight": 0}}, "the weight of x.jsonl must be a number"),
    ],
)
def test_wrong_keys_of_a_text_are_refused(data, text, message):
    assert any(message in error for error in data[0](text=text).validate())
