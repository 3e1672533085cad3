"""Datasets read with the `datasets` library: local folders and an unreachable Hub. Nothing here uses the network."""

import json

import datasets
import pytest
from datasets import Dataset, Features, Translation, Value

from hf_vaswani.data.sources.text_source import TextSource, check_source, digest, iterate_pairs
from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.arguments import DataArguments

from ...training.helpers import splits_of

PAIRS = [(f"Satz {i}", f"sentence {i}") for i in range(2_500)]
LANGUAGES = ("de", "en")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """A separate dataset cache for each test."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture
def folder(tmp_path):
    """A folder with a training split of 2,500 pairs and a test split of two."""
    features = Features({"id": Value("int64"), "translation": Translation(languages=["de", "en"])})
    for split, pairs in {"train": PAIRS, "test": PAIRS[:2]}.items():
        columns = {"id": list(range(len(pairs))), "translation": [{"de": s, "en": t} for s, t in pairs]}
        Dataset.from_dict(columns, features=features).to_parquet(tmp_path / f"{split}.parquet")
    return tmp_path


def read(source: TextSource, languages=LANGUAGES, **keywords) -> list:
    return list(iterate_pairs(source, languages, **keywords))


def error_of(function, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as error:
        function(*arguments, **keywords)
    return str(error.value)


@pytest.mark.parametrize("streaming", [False, True])
def test_parquet_folder_yields_its_splits(folder, streaming):
    train, test = (TextSource(dataset=str(folder), split=split) for split in ("train", "test"))
    assert check_source(train, LANGUAGES, streaming) == []
    assert read(train, streaming=streaming) == PAIRS
    assert read(test, ("en", "de"), streaming=streaming) == [(t, s) for s, t in PAIRS[:2]]


def test_validation_text_of_a_streaming_recipe_is_streamed_unless_it_is_a_split_slice(folder, monkeypatch):
    def load(*arguments, split, streaming, **keywords):
        streamed[split] = streaming
        return original(*arguments, split=split, streaming=streaming, **keywords)

    streamed, original = {}, datasets.load_dataset
    monkeypatch.setattr(datasets, "load_dataset", load)
    for split, expected in (("test", True), ("test[:1]", False)):
        data = DataArguments(
            dataset=str(folder), source_language="de", target_language="en", validation_split=split, streaming=True
        )
        assert splits_of(data).validation == PAIRS[: 2 if expected else 1]
        assert streamed[split] == expected


@pytest.mark.parametrize("streaming", [False, True])
def test_json_lines_folder_yields_its_only_split(tmp_path, streaming):
    Dataset.from_dict({"source": ["a", None], "target": ["b", "c"], "n": [1, 2]}).to_json(tmp_path / "part.jsonl")
    source = TextSource(dataset=str(tmp_path))
    assert check_source(source, LANGUAGES) == []
    assert read(source, streaming=streaming) == [("a", "b"), ("", "c")]


@pytest.mark.parametrize("streaming", [False, True])
def test_words_that_pandas_reads_as_missing_values_stay_text(tmp_path, streaming):
    (tmp_path / "test.csv").write_text("de,en,score\nnull,zero,1.5\nNA,None,\nHund,,2\n")
    pairs = read(TextSource(dataset=str(tmp_path), split="test"), streaming=streaming)
    assert pairs == [("null", "zero"), ("NA", "None"), ("Hund", "")]


def test_split_slices_are_read_but_cannot_be_streamed(folder):
    source = TextSource(dataset=str(folder), split="test+train[2:4]")
    assert read(source) == PAIRS[:4]
    assert check_source(source, LANGUAGES) == []
    (error,) = check_source(source, LANGUAGES, streaming=True)
    assert "a part of a split ('test+train[2:4]') cannot be streamed" in error


def test_wrong_split_config_or_columns_are_reported(folder):
    path = str(folder)
    cases = {
        TextSource(dataset=path): "more than one split; choose one with split. Available: train, test.",
        TextSource(dataset=path, split="dev"): "has no split 'dev'. Available: train, test.",
        TextSource(dataset=path, split="train[:1%"): "has no split 'train[:1%': Unrecognized instruction format",
        TextSource(dataset=path, split="train[:200%]"): "has no split 'train[:200%]': Percent slice boundaries",
        TextSource(dataset=path, config="fr-en", split="test"): "BuilderConfig 'fr-en' not found",
        TextSource(dataset=path, split="test", source_column="fr", target_column="en"): (
            "no columns 'fr' and 'en'. Available: 'de', 'en', 'id', 'translation'"
        ),
        TextSource(
            dataset=path, split="test", source_column="id", target_column="en"
        ): "'id' contains int64, not text",
    }
    for source, message in cases.items():
        (error,) = check_source(source, LANGUAGES)
        assert message in error
        assert path in error_of(read, source)


def test_empty_damaged_or_unsupported_folder_is_an_error(tmp_path):
    for name in ("empty", "damaged", "saved"):
        (tmp_path / name).mkdir()
    (tmp_path / "damaged" / "train.jsonl").write_text('{"de": "a", "en": "b"}\n{"de": \n')
    Dataset.from_dict({"de": ["a"]}).save_to_disk(tmp_path / "saved")
    assert "doesn't contain any data files" in check_source(TextSource(dataset=str(tmp_path / "empty")), LANGUAGES)[0]
    assert "JSON parse error" in error_of(read, TextSource(dataset=str(tmp_path / "damaged")))
    assert "save_to_disk()" in check_source(TextSource(dataset=str(tmp_path / "saved")), LANGUAGES)[0]


def test_config_of_the_parquet_branch_is_its_folder(tmp_path):
    (tmp_path / "de-en" / "train").mkdir(parents=True)
    (tmp_path / "de-en" / "train" / "0000.jsonl").write_text(json.dumps({"de": "a", "en": "b"}) + "\n")
    (tmp_path / "fr-en" / "train").mkdir(parents=True)
    (tmp_path / "fr-en" / "train" / "0000.jsonl").write_text(json.dumps({"fr": "c", "en": "d"}) + "\n")
    source = TextSource(dataset=str(tmp_path), config="de-en", split="train", revision="refs/convert/parquet")
    assert read(source) == [("a", "b")]


def test_folder_digest_depends_on_the_split_not_the_location(folder, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    for split in ("train", "test"):
        (copy / f"{split}.parquet").write_bytes((folder / f"{split}.parquet").read_bytes())
    train = digest(TextSource(dataset=str(folder), split="train"))
    assert digest(TextSource(dataset=str(copy), split="train")) == train
    assert digest(TextSource(dataset=str(copy), split="test")) != train
    assert digest(TextSource(dataset=str(copy), split="train[:50%]")) != train
    (copy / "test.parquet").unlink()
    assert digest(TextSource(dataset=str(copy), split="train")) == train


def test_unreachable_hub_error_explains_how_to_give_local_files():
    source = TextSource(dataset="nobody/nothing", config="de-en", split="train")
    (error,) = check_source(source, LANGUAGES)
    assert error.startswith("nobody/nothing/de-en cannot be reached on the Hub")
    assert "--train_source FILE --train_target FILE, or --train FILE.tsv" in error
    assert error_of(read, source) == error_of(read, source, streaming=True) == error_of(digest, source) == error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("Dataset scripts are no longer supported, but found x.py"), "revision: refs/convert/parquet"),
        (datasets.exceptions.DatasetNotFoundError("Dataset 'a/b' is a gated dataset on the Hub."), "hf auth login"),
        (datasets.exceptions.DatasetNotFoundError("Dataset 'a/b' doesn't exist on the Hub"), "is not on the Hub, or"),
        (ConnectionError("Couldn't reach 'a/b' on the Hub (ConnectError)"), "cannot be reached on the Hub"),
        (ValueError("Config name is missing."), "cannot be read from the Hub: Config name is missing."),
    ],
)
def test_hub_errors_say_what_to_do(monkeypatch, error, message):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(datasets, "load_dataset_builder", fail)
    (error,) = check_source(TextSource(dataset="a/b", split="train"), LANGUAGES)
    assert message in error and "local files instead" in error


def test_cached_dataset_is_read_offline_and_identified_by_its_commit(folder):
    """The cache has the layout of `datasets`: NAME/CONFIG/VERSION/COMMIT."""
    talks = folder.rename(folder.with_name("talks"))
    commit = datasets.config.HF_DATASETS_CACHE / "someone___talks" / "default" / "0.0.0" / "c0ffee"
    datasets.load_dataset_builder(str(talks)).download_and_prepare(str(commit))
    source = TextSource(dataset="someone/talks", split="test")
    assert check_source(source, LANGUAGES) == []
    assert read(source) == read(source, streaming=True) == PAIRS[:2]
    first = digest(source)
    assert digest(TextSource(dataset="someone/talks", split="train")) != first
    commit.rename(commit.with_name("decade"))
    assert digest(source) != first


def test_quotation_marks_in_a_tsv_of_a_folder_are_text(tmp_path):
    (tmp_path / "train.tsv").write_text('de\ten\n"Hund\tdog\nKatze"\tcat\nMaus\t"mouse"\n')
    expected = [('"Hund', "dog"), ('Katze"', "cat"), ("Maus", '"mouse"')]
    assert read(TextSource(dataset=str(tmp_path), split="train")) == expected
    assert read(TextSource(file=str(tmp_path / "train.tsv"))) == expected
