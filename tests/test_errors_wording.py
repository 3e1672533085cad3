from hf_vaswani.errors import counted, line_range


def test_one_is_singular_and_large_numbers_have_commas():
    assert [counted(number, "training pair") for number in (0, 1, 2000)] == [
        "0 training pairs", "1 training pair", "2,000 training pairs",
    ]  # fmt: skip
    assert counted(3, "batch") == "3 batches"


def test_range_of_one_line_is_that_line():
    assert line_range(3000, 3000) == "line 3,000"
    assert line_range(3, 5) == "lines 3 to 5"
