"""Translating a column of batches, as Ray Data, datasets and Spark hand them out."""

import pickle
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import AutoModelForSeq2SeqLM, pipeline

from hf_vaswani.errors import InputError
from hf_vaswani.translator import BatchTranslator

from ..conftest import slow_but

TEXTS = ["w1 w2", None, "w3", "", "w4 " * 20, "w5 w6 w7"]
OPTIONS = {"max_new_tokens": 4, "num_beams": 2}
LIMITED = {**OPTIONS, "max_source_length": 8}
TOO_LONG = "21 tokens, more than the limit of 8: use --split_sentences"


@pytest.fixture
def expected(saved_model) -> list[str | None]:
    """The pipeline's translations of `TEXTS`; the one that is too long has none."""
    translator = pipeline("translation", model=str(saved_model), **OPTIONS)
    return [
        None if text is None else "" if len(text) > 50 else translator(text)[0]["translation_text"] for text in TEXTS
    ]


def as_list(column) -> list:
    return [None if value is None else str(value) for value in column]


@pytest.mark.parametrize(
    "kind",
    [
        lambda columns: columns,
        lambda columns: {name: np.array(values, dtype=object) for name, values in columns.items()},
        pd.DataFrame,
        pa.table,
    ],
    ids=["lists", "arrays", "pandas", "arrow"],
)
def test_each_type_of_batch_is_returned_with_its_translations(saved_model, expected, kind):
    batch = kind({"id": list(range(6)), "text": TEXTS})
    translated = BatchTranslator(saved_model, error_column="error", **LIMITED)(batch)
    assert type(translated) is type(batch)
    columns = translated.to_pydict() if kind is pa.table else {name: list(translated[name]) for name in translated}
    assert list(columns) == ["id", "text", "translation", "error"]
    assert as_list(columns["translation"]) == expected
    assert as_list(columns["error"]) == ["", "", "", "", TOO_LONG, ""]
    assert [int(number) for number in columns["id"]] == list(range(6))
    assert "translation" not in (batch.column_names if kind is pa.table else batch)


def test_sentences_are_translated_sequential_and_doubtful_translations_counted(saved_model, caplog):
    translate = BatchTranslator(saved_model, max_new_tokens=60, num_beams=1)
    one, two = translate({"text": ["w1", "w2 w3"]})["translation"]
    assert translate({"text": ["", "w1\n\nw2 w3"]})["translation"] == ["", f"{one}\n\n{two}"]
    messages = [record.message for record in caplog.records]
    assert messages == [
        "2 translations may be wrong; the first: row 0: far longer than usual",
        "1 translation may be wrong; the first: row 1: far longer than usual",
    ]


def test_arrays_of_strings_are_translated(saved_model, expected):
    translated = BatchTranslator(saved_model, "de", "en", **OPTIONS)({"de": np.array([TEXTS[0], TEXTS[2]])})
    assert list(translated["en"]) == [expected[0], expected[2]]


def test_missing_values_of_pandas_stay_missing(saved_model):
    frame = pd.DataFrame({"text": pd.array(["w1", pd.NA], dtype="string")})
    assert BatchTranslator(saved_model, **OPTIONS)(frame)["translation"].iloc[1] is None
    frame = pd.DataFrame({"text": np.array(["w1", float("nan")], dtype=object)})
    assert BatchTranslator(saved_model, **OPTIONS)(frame)["translation"].iloc[1] is None


def test_failures_are_logged_without_an_error_column(saved_model, caplog):
    translated = BatchTranslator(saved_model, **LIMITED)({"text": ["w1", "w1 " * 20, "w2 " * 30]})
    assert translated["translation"][1:] == ["", ""] and "error" not in translated
    assert f"2 texts without a translation; the first: {TOO_LONG}" in caplog.text


def test_value_that_is_not_a_text_does_not_affect_the_others(saved_model, expected):
    translated = BatchTranslator(saved_model, error_column="error", **OPTIONS)({"text": ["w1 w2", 7]})
    assert translated["translation"] == [expected[0], ""]
    assert translated["error"] == ["", "int, not a text"]


def test_columns_that_cannot_be_translated_are_rejected(saved_model):
    translate = BatchTranslator(saved_model)
    with pytest.raises(InputError, match="no column 'text': the batch has 'id', 'de'"):
        translate({"id": [1], "de": ["w1"]})
    with pytest.raises(InputError, match="The column 'text' contains no text: int, not a text."):
        translate({"text": [1, 2]})
    with pytest.raises(InputError, match="absent is not a local folder"):
        BatchTranslator("absent")({"text": ["w1"]})


def test_copies_are_small_and_load_their_own_model(saved_model, expected):
    translate = BatchTranslator(saved_model, **OPTIONS)
    before = len(pickle.dumps(translate))
    translate({"text": ["w1"]})
    copied = pickle.dumps(translate)
    assert len(copied) == before < 2000
    assert pickle.loads(copied)({"text": ["w1 w2"]})["translation"] == [expected[0]]


@pytest.mark.parametrize("processes", slow_but([None, 2], None))
@pytest.mark.parametrize("is_same_translator", [True, False])
def test_datasets_map_notices_new_weights(saved_model, processes, is_same_translator):
    dataset = Dataset.from_dict({"text": ["w1 w2", "w3", "w5 w6 w7"]})
    first = BatchTranslator(saved_model, **OPTIONS)
    before = dataset.map(first, batched=True, num_proc=processes)["translation"][:]
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(saved_model)
    second = first if is_same_translator else BatchTranslator(saved_model, **OPTIONS)
    after = dataset.map(second, batched=True, num_proc=processes)["translation"][:]
    translator = pipeline("translation", model=str(saved_model), **OPTIONS)
    assert after == [translator(text)[0]["translation_text"] for text in dataset["text"]] != before


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json"])
def test_fingerprint_depends_on_content_alone(saved_model, tmp_path, name):
    shutil.copytree(saved_model, tmp_path / "base")
    folder = tmp_path / "moved"
    (tmp_path / "base").rename(folder)
    fingerprints = [Hasher.hash(BatchTranslator(folder)), Hasher.hash(BatchTranslator(folder))]
    (folder / "README.md").write_text("A card.")
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    fingerprints.append(Hasher.hash(BatchTranslator(folder)))
    assert len(set(fingerprints)) == 1
    (folder / name).write_text((folder / name).read_text() + " ")
    assert Hasher.hash(BatchTranslator(folder)) not in fingerprints


@pytest.mark.parametrize("processes", [None, 2])
def test_datasets_map_translates_a_dataset(saved_model, expected, processes):
    dataset = Dataset.from_dict({"id": list(range(6)), "text": TEXTS})
    translate = BatchTranslator(saved_model, error_column="error", **LIMITED)
    translated = dataset.map(translate, batched=True, batch_size=2, num_proc=processes)
    assert translated.column_names == ["id", "text", "translation", "error"]
    assert translated["translation"][:] == expected


def test_frames_are_translated_sequential_as_in_spark(saved_model, expected):
    frames = iter([pd.DataFrame({"text": TEXTS[:2]}), pd.DataFrame({"text": TEXTS[2:4]})])
    translated = list(map(BatchTranslator(saved_model, **OPTIONS), frames))
    assert [text for frame in translated for text in as_list(frame["translation"])] == expected[:4]


def test_engine_folders_translate_too(saved_model, tmp_path):
    pytest.importorskip("ctranslate2")
    from hf_vaswani.cli import main

    assert main(["export", str(saved_model), str(tmp_path / "ct2"), "--to", "ctranslate2"]) == 0
    texts = {"text": ["w1 w2", "w3", None]}
    own, other = (BatchTranslator(model, **OPTIONS)(texts) for model in (saved_model, tmp_path / "ct2"))
    assert other["translation"] == own["translation"]
