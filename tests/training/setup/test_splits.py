"""From the `data` section of a recipe to the pairs that a model is trained on."""

import gzip
import json

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.setup.splits import load_test_sets, stream_of
from hf_vaswani.training.train import train

from ..helpers import losses, same_weights, source_errors_of, splits_of

BARE = "model: {d_model: 32}\ntraining: {output_dir: out}\n"


@pytest.fixture
def data_of(tmp_path):
    """The `data` section of a recipe given only by options."""
    path = tmp_path / "bare.yaml"
    path.write_text(BARE)
    return lambda *options: load_recipe(path, list(options)).data


@pytest.fixture
def table(tmp_path):
    """Writes a file with both sides, in the format of its extension."""

    def write(name: str, pairs) -> str:
        path = tmp_path / name
        if name.endswith((".jsonl", ".jsonl.gz")):
            text = "".join(json.dumps({"translation": {"de": s, "en": t}}) + "\n" for s, t in pairs)
        else:
            text = "".join(f"{s}\t{t}\n" for s, t in pairs)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return write


PAIRS = [("ein Hund", "a dog"), ("eine Katze", "a cat")]


def test_file_with_both_sides_is_given_by_one_option(data_of, table):
    languages = ("--source_language=de", "--target_language=en")
    for name in ("train.tsv", "train.tsv.gz", "train.jsonl.gz"):
        data = data_of(f"--train={table(name, PAIRS)}", f"--validation={table('valid.jsonl', PAIRS)}", *languages)
        assert source_errors_of(data) == []
        texts = splits_of(data)
        assert list(texts.train) == texts.validation == PAIRS
        assert texts.test is None


def test_sources_are_mixed_as_the_recipe_lists_them(tmp_path, table):
    path = tmp_path / "mixed.yaml"
    first, second = table("a.tsv", PAIRS), table("b.tsv", PAIRS[:1])
    path.write_text(
        BARE + f"data:\n  train:\n    - {{file: {first}, weight: 2}}\n    - {{file: {second}, weight: 1}}\n"
        f"  validation: {second}\n"
    )
    texts = splits_of(load_recipe(path).data)
    assert texts.weights == [2.0, 1.0]
    assert texts.train.dataset["origin"][:] == [0, 0, 1]
    option = f"--train=[{{file: {first}}}, {{file: {second}}}]"
    unweighted = splits_of(load_recipe(path, [option]).data)
    assert unweighted.weights is None
    assert unweighted.digests["train"] != texts.digests["train"]


def test_built_in_corpus_and_slices_of_a_dataset_can_be_splits(data_of, table, tmp_path):
    for options in (["--dataset=built-in", "--test_split=null"], ["--train=built-in", "--validation=built-in"]):
        texts = splits_of(data_of(*options))
        assert len(texts.validation) == 500 and texts.test is None
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(json.dumps({"de": f"d{i}", "en": f"e{i}"}) + "\n" for i in range(10)))
    options = (f"--dataset={folder}", "--source_language=de", "--target_language=en", "--test_split=null")
    texts = splits_of(data_of(*options, "--train_split=train[:8]", "--validation_split=train[8:]"))
    assert len(texts.train) == 8
    assert texts.validation == [("d8", "e8"), ("d9", "e9")]
    [error] = source_errors_of(data_of(*options))
    assert "no split 'validation'" in error and "data.validation_split" in error


def test_testing_on_the_training_text_is_an_error_however_it_is_named(data_of, table, tmp_path):
    file = table("a.tsv", PAIRS)
    (tmp_path / "link.tsv").symlink_to(file)
    for name in (file, tmp_path / "link.tsv"):
        options = (f"--train={file}", f"--validation={file}")
        [error] = source_errors_of(data_of(*options, f"--test={name}"))
        assert error.startswith("data.test: ") and "is also a test set" in error and "data.test_share" in error
        [error] = source_errors_of(data_of(*options, f"--tests={{more: {name}}}"))
        assert error.startswith("data.tests.more: ")
    assert source_errors_of(data_of(*options, f"--test={table('b.tsv', PAIRS)}")) == []


def test_all_errors_of_all_sources_are_reported_together(data_of, table):
    data = data_of(
        f"--train=[{{file: absent.tsv, weight: 1}}, {{file: {table('a.tsv', PAIRS)}}}]",
        "--validation={fil: x.tsv}", "--test_source=absent.de", "--test_target=absent.en",
    )  # fmt: skip
    errors = source_errors_of(data)
    assert len(errors) == 2
    assert "give all sources a weight, or none" in errors[0]
    assert "data.validation: unknown key 'fil'; did you mean 'file'?" in errors[1]
    data = data_of("--train=absent.tsv", "--validation=absent.xyz", "--test_source=absent.de", "--test_target=no.en")
    assert [error.partition(":")[0] for error in source_errors_of(data)] == [
        "data.train", "data.validation", "data.test", "data.test",
    ]  # fmt: skip


def test_unreachable_hub_is_reported_with_the_options_for_local_files(data_of):
    [error] = source_errors_of(data_of("--dataset=somebody/something"))
    assert "somebody/something" in error
    assert "--train_source FILE --train_target FILE" in error


NUMBERS = [(f"Satz {i}", f"sentence {i}") for i in range(300)]
SHARES = ("--validation_share=0.1", "--test_share=0.2")


@pytest.mark.parametrize("kind", ["one file", "several files", "data set"])
def test_validation_and_test_pairs_are_held_out_of_the_training_text(data_of, table, tmp_path, kind):
    if kind == "data set":
        folder = tmp_path / "set"
        folder.mkdir()
        (folder / "train.jsonl").write_text("".join(json.dumps({"de": s, "en": t}) + "\n" for s, t in NUMBERS))
        options = (f"--dataset={folder}", "--source_language=de", "--target_language=en")
    elif kind == "one file":
        options = (f"--train={table('all.tsv', NUMBERS)}",)
    else:
        options = (f"--train=[{{file: {table('a.tsv', NUMBERS[:99])}}}, {{file: {table('b.tsv', NUMBERS[99:])}}}]",)
    data = data_of(*options, *SHARES)
    assert source_errors_of(data) == []
    texts = splits_of(data)
    train, validation, test = list(texts.train), texts.validation, texts.test
    assert sorted(train + validation + test) == sorted(NUMBERS)
    # The same pairs in any format of the text; the tolerance is four standard deviations of a binomial.
    assert [len(validation), len(test)] == pytest.approx([30, 60], abs=28)
    assert validation == splits_of(data_of(f"--train={table('other.tsv', NUMBERS)}", *SHARES)).validation
    other = splits_of(data_of(*options, *SHARES, "--split_seed=2"))
    assert other.validation != validation and other.digests["train"] != texts.digests["train"]


def test_stream_skips_the_held_out_pairs(data_of, table):
    options = (f"--train={table('all.tsv', NUMBERS)}", *SHARES)
    texts, streamed = splits_of(data_of(*options)), splits_of(data_of(*options, "--streaming"))
    assert streamed.train is None
    assert (streamed.validation, streamed.test) == (texts.validation, texts.test)
    data = data_of(*options, "--streaming")
    assert list(stream_of(data, streamed.sources[0])) == list(texts.train)
    others = splits_of(data_of(*options, "--streaming", "--split_seed=2"))
    assert others.digests["train"] != streamed.digests["train"]


def test_text_too_small_for_its_shares_is_a_clear_error(data_of, table):
    data = data_of(f"--train={table('all.tsv', PAIRS)}", "--validation_share=0.001", "--test_share=0.001")
    with pytest.raises(InputError) as error:
        splits_of(data)
    lines = str(error.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["data.validation", "data.test"]
    assert "Raise data.validation_share, or give a separate validation set" in lines[0]


def test_held_out_sizes_are_printed_and_a_changed_split_seed_is_rejected(data_of, table, tmp_path, recipe, capsys):
    options = (f"--train={table('all.tsv', NUMBERS)}", *SHARES, "--max_steps=1")
    results = train(recipe(*WITHOUT_FILES, *options))
    printed = capsys.readouterr().out
    texts = splits_of(data_of(*options))
    assert f"{len(texts.validation)} pairs (0.1) of the training text held out as the validation set" in printed
    assert f"{len(texts.test)} pairs (0.2) of the training text held out as the test set" in printed
    assert len((results.folder / "test_translations.txt").read_text().splitlines()) == len(texts.test)
    with pytest.raises(InputError, match="data.split_seed was 1 and is now 2"):
        train(recipe(*WITHOUT_FILES, *options, "--split_seed=2"))


# Removes the files of the small training run from its recipe.
WITHOUT_FILES = [
    f"--{split}_{side}=null" for split in ("train", "validation", "test") for side in ("source", "target")
]


def test_length_that_covers_a_share_of_the_pairs_is_found_and_printed(recipe, table, capsys):
    # 10 pairs of 1 to 10 words, each with one more token for EOS.
    words = [(" ".join("abcdefghij"[:n]), "a b") for n in range(1, 11)]
    options = (f"--train={table('t.tsv', words)}", f"--validation={table('v.tsv', PAIRS)}")
    learned = ("--type=word", "--min_frequency=1", "--max_steps=1")
    results = train(recipe(*WITHOUT_FILES, *options, *learned, "--max_length_coverage=0.75"))
    printed = capsys.readouterr().out
    assert "training text: 75.0% of the pairs have at most 9 tokens on either side; this is now max_length" in printed
    assert "2 with more than 9 tokens on a side: left out" in printed
    assert json.loads((results.folder / "results.json").read_text())["filters"]["too_long"] == 2
    # The same command resumes the run.
    assert train(recipe(*WITHOUT_FILES, *options, *learned, "--max_length_coverage=0.75")).steps == 1


def test_coverage_length_beyond_learned_positions_is_an_error(recipe):
    options = ("--max_length_coverage=1", "--position_type=learned", "--max_position_embeddings=5")
    with pytest.raises(
        InputError, match=r"max_length_coverage=1.0 amounts to \d+ tokens, more than the 5 learned positions"
    ):
        train(recipe(*options))


def test_resumed_streamed_run_equals_an_uninterrupted_one(recipe):
    options = ("--streaming=true", "--save_steps=1", "--max_length=100")
    whole = train(recipe(*options, output="whole")).folder
    train(recipe(*options, "--max_steps=5", output="parts"))
    parts = train(recipe(*options, output="parts")).folder
    assert losses(parts) == losses(whole)
    assert same_weights(parts, whole)


def test_filter_report_is_printed_and_stored(recipe, tmp_path, capsys):
    for side, more in (("x", ["a b", "", "c", "a b", "\x07 d"]), ("y", ["b a", "d", "c", "b a", "d"])):
        path = tmp_path / f"train.{side}"
        path.write_text(path.read_text() + "".join(f"{line}\n" for line in more))
    results = train(recipe("--drop_duplicates=true", "--max_steps=1"))
    printed = capsys.readouterr().out
    assert "65 pairs read" in printed
    for line in ("1 with an empty side: left out", "1 with control characters: kept; --drop_control_characters true"):
        assert line in printed
    stored = json.loads((results.folder / "results.json").read_text())["filters"]
    assert stored["pairs"] == 65 and stored["empty"] == 1 and stored["control_characters"] == 1


@pytest.mark.parametrize(("options", "errors"), [
    (["--train=a.tsv", "--train_source=a", "--validation=a.tsv"], ["data.train and data.train_source are both given"]),
    (["--train=a.tsv", "--validation_source=a"], ["data.validation_target is missing"]),
    (["--dataset=x", "--train=a.tsv"], ["data.dataset='x' and data.train are both given"]),
    (["--dataset=built-in", "--streaming", "--max_length=99", "--max_tokens=50", "--drop_duplicates"],
     ["data.max_length=99 allows sentences", "data.drop_duplicates has to"]),
    (["--dataset=built-in", "--max_length_ratio=0.5", "--keep_best=0", "--average=best"],
     ["data.max_length_ratio must be at least 1", "training.average='best' needs"]),
    (["--dataset=built-in", "--metric_for_best_model=bleu", "--eval_sentences=0", "--ema_decay=1", "--warmup_steps=0"],
     ["training.ema_decay", "training.warmup_steps must be at least 1", "training.metric_for_best_model='bleu'"]),
])  # fmt: skip
def test_all_conflicts_in_a_recipe_are_reported_together(data_of, options, errors):
    with pytest.raises(InputError) as raised:
        data_of(*options)
    lines = str(raised.value).splitlines()
    assert len(lines) == len(errors)
    for line, error in zip(lines, errors):
        assert error in line


def test_header_key_says_whether_files_begin_with_column_names(data_of, table):
    path = table("named.tsv", [("german", "english"), *PAIRS])
    files = (f"--train={path}", f"--validation={path}")
    [train_error, _] = source_errors_of(data_of(*files))
    assert "named.tsv, line 1: 'german' and 'english' look like column names." in train_error
    assert "--header true" in train_error and "--header false" in train_error
    assert splits_of(data_of(*files, "--header=true")).validation == PAIRS
    texts = splits_of(data_of(*files, "--header", "false"))
    assert texts.validation == list(texts.train) == [("german", "english"), *PAIRS]


def test_first_pair_and_swapped_sides_are_printed_at_the_start(recipe, tmp_path, write_lines, capsys):
    words = "der die das und ist nicht ein eine", "the and of is a to in that"
    sides = [[f"{word} {other} {word}" for word in side.split() for other in side.split()] for side in words]
    german, english = write_lines("text.de", sides[0]), write_lines("text.en", sides[1])
    swapped = [f"--validation_source={english}", f"--validation_target={german}"]
    train(recipe(f"--train_source={german}", f"--train_target={english}", *swapped, "--max_steps=1"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "first pair: der der der → the the the"
    warning = "warning: in the validation text, or in the training text, source and target seem to be swapped."
    assert [line for line in lines if "swapped" in line] == [warning]


def test_test_sets_can_be_read_without_the_other_texts(data_of, table):
    more = "{other: {file: " + table("other.tsv", [("x", "y")]) + "}}"
    data = data_of(f"--train={table('all.tsv', NUMBERS)}", *SHARES, f"--tests={more}")
    found = load_test_sets(data)
    assert found == splits_of(data).test_sets
    assert list(found) == ["test", "other"] and found["other"] == [("x", "y")]
    assert 0 < len(found["test"]) < len(NUMBERS) and set(found["test"]) <= set(NUMBERS)


def test_recipe_without_test_sets_has_none(data_of, table):
    text = table("all.tsv", PAIRS)
    data = data_of(f"--train={text}", f"--validation={text}")
    assert load_test_sets(data) == {}


def test_reversed_source_cannot_be_combined_with_a_share(tmp_path, table):
    path = tmp_path / "bare.yaml"
    path.write_text(BARE)
    entries = f"[{{file: {table('a.tsv', PAIRS)}}}, {{file: {table('b.tsv', PAIRS)}, reversed: true}}]"
    with pytest.raises(InputError, match="reversed: true cannot be combined with data.validation_share"):
        load_recipe(path, [f"--train={entries}", "--validation_share=0.2"])


def test_source_whose_pairs_are_all_too_long_is_named(recipe, table):
    long, short = table("long.tsv", [("a b c d e f g h", "h g f e d c b a")] * 30), table("short.tsv", NUMBERS)
    entries = f"[{{file: {long}, weight: 3}}, {{file: {short}, weight: 1}}]"
    with pytest.raises(InputError, match="long.tsv: the length filters leave out all pairs"):
        train(recipe(*WITHOUT_FILES, f"--train={entries}", f"--validation={short}", "--max_length=4"))
