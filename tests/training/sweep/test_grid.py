import pytest

from hf_vaswani.training.sweep.grid import Combination, as_text, combination_name, combinations, split_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.2", ["0.1", "0.2"]),
        ("a", ["a"]),
        ("[a, b],[],[c]", ["[a, b]", "[]", "[c]"]),
        ("{x: {source: a, target: b}},{}", ["{x: {source: a, target: b}}", "{}"]),
        ("'a, b',\"c\",d", ["a, b", "c", "d"]),
        ("['a]', b],c", ["['a]', b]", "c"]),
        ("don't,can't", ["don't", "can't"]),
        ("a,,b,", ["a", "", "b", ""]),
        (" a , b ", ["a", "b"]),
        ("null,true,1e-9", ["null", "true", "1e-9"]),
    ],
)
def test_values_are_split_at_commas_outside_brackets_and_quotes(text, values):
    assert split_values(text) == values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0.5, "0.5"),
        (3, "3"),
        ("no", "no"),
        (["a", 1], '["a", 1]'),
        ({"é": 1}, '{"é": 1}'),
    ],
)
def test_values_of_a_file_are_written_as_on_the_command_line(value, text):
    assert as_text(value) == text


def test_rows_and_grid_are_combined_with_the_last_key_changing_fastest():
    found = combinations({"small": {"d_model": "8"}, "large": {}}, {"dropout": ["0", "0.1"], "seedless": ["x"]})
    assert found == [
        Combination("small_dropout-0_seedless-x", {"d_model": "8", "dropout": "0", "seedless": "x"}),
        Combination("small_dropout-0.1_seedless-x", {"d_model": "8", "dropout": "0.1", "seedless": "x"}),
        Combination("large_dropout-0_seedless-x", {"dropout": "0", "seedless": "x"}),
        Combination("large_dropout-0.1_seedless-x", {"dropout": "0.1", "seedless": "x"}),
    ]
    assert combinations({}, {}) == [Combination("recipe", {})]


def test_combination_names_are_distinct_valid_file_names():
    names = [
        combination_name("", {"data.train": text}) for text in ("a/b.tsv", "a:b.tsv", "x" * 300, "x" * 301, "../..")
    ]
    assert len(set(names)) == 5
    assert all("/" not in name and ":" not in name and len(name) < 100 for name in names)
    assert names[0].startswith("train-a-b.tsv-")
    assert combination_name("", {"training.license": "mit", "dropout": "0.1"}) == "license-mit_dropout-0.1"
