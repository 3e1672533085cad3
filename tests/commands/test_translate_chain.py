"""`hf-vaswani translate --second_model`: files and documents over a third language."""

import json
import re
import shutil

import pytest
from transformers import AutoConfig, pipeline

from hf_vaswani.cli import main
from hf_vaswani.models.load import load
from hf_vaswani.text.pivots import compose_links
from hf_vaswani.translator.documents import align_texts
from hf_vaswani.translator.lines import LineTranslator

SHORT = ["--max_new_tokens", "4", "--num_beams", "1"]
PAGE = "<p>w1 <b>w2</b> w3</p>\n<p>w1 w2 <i>w5 w6</i></p>\n"


@pytest.fixture
def folders(saved_model, saved_backward):
    """Models from es to en and from en to de."""
    for folder, pair in ((saved_model, ("es", "en")), (saved_backward, ("en", "de"))):
        config = AutoConfig.from_pretrained(folder)
        config.source_language, config.target_language = pair
        config.save_pretrained(folder)
    return str(saved_model), str(saved_backward)


@pytest.fixture
def translate(folders, capsys):
    """Runs the command in this process, and returns its exit status, standard output, and standard error."""

    def run(*options) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["translate", folders[0], "--second_model", folders[1], *SHORT, *map(str, options)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def chain(folders):
    limits = {"max_new_tokens": 4, "num_beams": 1}
    return pipeline("translation", model=folders[0], second_model=folders[1], engine="torch", **limits)


@pytest.fixture
def source(tmp_path):
    """300 lines, translated in windows of 128 and 172."""
    path = tmp_path / "source"
    path.write_text("".join(f"w{n % 36} w{n * 7 % 36} w{n * 5 % 31}\n" for n in range(299)) + "\n")
    return path


def test_lines_are_translated_as_in_the_pipeline(translate, source, tmp_path, chain):
    assert translate("--input", source, "--output", tmp_path / "out")[0] == 0
    wanted = chain(source.read_text().split("\n")[:-1])
    assert (tmp_path / "out").read_text() == "".join(f"{each['translation_text']}\n" for each in wanted)


def test_interrupted_output_is_resumed_with_both_models_and_with_no_other(
    translate, source, tmp_path, monkeypatch, folders
):
    whole, output = tmp_path / "whole", tmp_path / "out"
    assert translate("--input", source, "--output", whole)[0] == 0
    windows, call = [], LineTranslator.__call__

    def interrupted(self, lines):
        windows.append(len(lines))
        if len(windows) == 3:  # after the trial and one window
            raise KeyboardInterrupt
        return call(self, lines)

    with monkeypatch.context() as patched:
        patched.setattr(LineTranslator, "__call__", interrupted)
        assert translate("--input", source, "--output", output)[0] == 130
    assert output.read_text().count("\n") == 128
    other = tmp_path / "other"
    shutil.copytree(folders[1], other)
    (other / "model.safetensors").write_bytes((tmp_path / "saved" / "model.safetensors").read_bytes())
    status, _, error = translate("--input", source, "--output", output, "--resume", "--second_model", other)
    assert status == 2 and "begun with other settings: model" in error
    assert translate("--input", source, "--output", output, "--resume")[0] == 0
    assert output.read_bytes() == whole.read_bytes()


def test_records_have_the_text_in_the_third_language_and_scores(translate, source, chain, tmp_path):
    _, out, _ = translate("--input", source, "--format", "jsonl", "--scores")
    records = [json.loads(line) for line in out.splitlines()]
    texts = [record["source"] for record in records]
    for record, wanted in zip(records, chain(texts, return_scores=True)):
        [found] = record["translations"]
        assert (found["text"], found["pivot_text"]) == (wanted["translation_text"], wanted["pivot_text"])
        assert found["score"] == pytest.approx(wanted["score"], abs=1e-5)


def test_tags_of_a_document_are_placed_over_both_steps(translate, tmp_path, chain, folders):
    page, filled = tmp_path / "page.html", tmp_path / "filled.html"
    page.write_text(PAGE)
    assert translate("--input", page, "--output", filled)[0] == 0
    from hf_vaswani.documents.reading import read_document

    document = read_document("html", PAGE.encode())
    found = chain(document.texts)
    pivots, translations = ([each[name] for each in found] for name in ("pivot_text", "translation_text"))
    first = align_texts(*load(folders[0]), document.texts, pivots, document.has_tags)
    second = align_texts(*load(folders[1]), pivots, translations, document.has_tags)
    links = list(map(compose_links, document.texts, pivots, translations, first, second))
    assert any(links)
    assert filled.read_bytes() == document.fill(translations, links)
    assert re.findall("<[^>]*>", filled.read_text()) == re.findall("<[^>]*>", PAGE)


def test_glossary_holds_in_the_final_lines(translate, source, tmp_path):
    (tmp_path / "terms.tsv").write_text("w7\tw30\n")
    assert translate("--input", source, "--output", tmp_path / "out", "--glossary", tmp_path / "terms.tsv")[0] == 0
    pairs = list(zip(source.read_text().split("\n"), (tmp_path / "out").read_text().split("\n")))
    assert all(out.split().count("w30") >= line.split().count("w7") for line, out in pairs)
    assert sum("w7" in line.split() for line, _ in pairs) > 10


def test_pairs_to_train_on_are_made_over_a_third_language(translate, source, tmp_path, chain):
    pairs, search = tmp_path / "pairs.jsonl", {"max_new_tokens": 60, "num_beams": 3}
    options = ["--engine", "torch", *(part for name, value in search.items() for part in (f"--{name}", value))]
    assert translate("--input", source, "--pairs", pairs, "--side", "target", *options)[0] == 0
    made = [json.loads(line) for line in pairs.read_text().splitlines()]
    wanted = chain([pair["target"] for pair in made], **search)
    assert made and [pair["source"] for pair in made] == [each["translation_text"].strip() for each in wanted]
    provenance = json.loads((tmp_path / "pairs.jsonl.provenance.json").read_text())
    assert [each["role"] for each in provenance["inputs"]] == ["model", "second_model", "input"]


@pytest.mark.parametrize("options, message", [
    (["--alignments", "--format", "jsonl"], "--alignments cannot be combined with --second_model: over"),
    (["--rerank_with", "{first}", "--num_beams", "2"], "--rerank_with cannot be combined with --second_model:"),
    (["--second_model", "{first}"], "Nothing translates en to any language: the second model translates es to en"),
    (["--via", "fr"], "Nothing translates any language to fr: the first model translates es to en"),
    (["--via", "en", "--source_language", "en"], "via='en' is the source language, too"),
    (["--second_model", "{first}/missing"], "missing does not exist"),
])  # fmt: skip
def test_wrong_call_is_one_error_and_writes_nothing(translate, source, tmp_path, folders, options, message):
    given = [option.format(first=folders[0]) for option in options]
    status, out, error = translate("--input", source, "--output", tmp_path / "out", *given)
    assert (status, out, len(error.splitlines())) == (2, "", 1) and message in error
    assert not (tmp_path / "out").exists() or not (tmp_path / "out").read_text()


def test_via_without_a_second_model_needs_a_multilingual_one(folders, source, capsys):
    assert main(["translate", folders[0], "--via", "en", "--input", str(source)]) == 2
    assert "via='en': this model translates only es to en. Pass the model that translates what it writes with " in (
        error := capsys.readouterr().err
    ) and error.rstrip().endswith("--second_model.")
