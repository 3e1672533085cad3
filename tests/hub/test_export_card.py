"""Cards of exported models, and their upload to the Hub."""

import json

import pytest
import transformers
from huggingface_hub import ModelCard
from sacrebleu.metrics import BLEU, CHRF
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.files import InputPath
from hf_vaswani.hub import export_card as origin_module
from hf_vaswani.hub.export_card import Comparison, MetricLoss, Origin, export_card, published_name, read_origin
from hf_vaswani.hub.push import files_to_push

from ..conftest import tiny_model
from ..engines.conftest import separate

__all__ = ["separate"]

pytest.importorskip("ctranslate2")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SOURCES = ["w1 w2 w3", "", "w9 w4", "w5 w6 w7 w8"]
REFERENCES = ["w3 w2", "", "w7 w7 w1", "w11 w12 w13"]
ORIGIN = Origin("you/de-en", ["de", "en"], {"license": "mit"}, 40_000_000)
COMPARISON = Comparison(
    "test.de", "beam 4", "CTranslate2 on the CPU", 1000, 901,
    [MetricLoss("BLEU", 22.7149, 22.7151, "nrefs:1"), MetricLoss("chrF2", 41.48, 41.29, "nc:6")],
    ("Ein Hund", "A dog"),
)  # fmt: skip


@pytest.fixture
def export(saved_model, write_lines, tmp_path):
    """Exports a tiny model and returns the folder."""
    sample = write_lines("sample", ["w1 w2"])

    def run(to, *options):
        output = tmp_path / f"{to}-export"
        assert main(["export", str(saved_model), str(output), "--to", to, "--sample", sample, *options]) == 0
        return output

    return run


@pytest.fixture
def scoring_options(write_lines):
    return ["--source", write_lines("test.x", SOURCES), "--reference", write_lines("test.y", REFERENCES)]


def row(card: ModelCard, name: str) -> list[str]:
    """The other cells of the table row that begins with a name."""
    [line] = [line for line in card.text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.parametrize(
    ("to", "quantization", "beams"),
    [("ctranslate2", "int8", 2), ("ctranslate2", "bfloat16", 2), ("onnx", "int8", 2), ("transformers.js", "int8", 1)],
)
def test_quantized_export_reports_its_loss_on_a_test_set(
    to, quantization, beams, export, scoring_options, saved_model, capsys
):
    model = tiny_model()
    model.generation_config.update(num_beams=2, max_new_tokens=6)
    model.save_pretrained(saved_model)
    folder = export(to, "--quantization", quantization, *scoring_options)
    card = ModelCard.load(folder / "README.md")
    own = [r["translation_text"] for r in pipeline("translation", model=str(saved_model))(SOURCES, num_beams=beams)]
    for metric, name in ((BLEU(), "BLEU"), (CHRF(), "chrF2")):
        value = metric.corpus_score(own, [REFERENCES]).score
        cells = row(card, name)
        assert cells[0] == f"{value:.2f}"
        assert float(cells[2]) == pytest.approx(float(cells[1]) - float(cells[0]), abs=1e-6)
        assert str(metric.get_signature()) in card.text
    if to != "transformers.js":
        got = [r["translation_text"] for r in pipeline("translation", model=str(folder))(SOURCES)]
        assert row(card, "BLEU")[1] == f"{BLEU().corpus_score(got, [REFERENCES]).score:.2f}"
        same = sum(one == other for one, other in zip(own, got))
        assert row(card, "the same translation")[1] == f"{same} of 4 ({same / 4:.1%})"
    else:
        assert row(card, "the same translation")[1].endswith(("of 4 (100.0%)", "of 4 (75.0%)", "of 4 (50.0%)"))
    weights = [path for path in folder.rglob("*") if path.name == "model.bin" or path.parent.name == "onnx"]
    sizes = [(saved_model / "model.safetensors").stat().st_size, sum(path.stat().st_size for path in weights)]
    assert row(card, "size of the weights")[:2] == [f"{size / 1e6:.1f} MB" for size in sizes]
    assert ("beam 2" if beams == 2 else "greedy") in card.text
    printed = capsys.readouterr().out
    assert f"BLEU {row(card, 'BLEU')[1]}, the model's {row(card, 'BLEU')[0]}" in printed


def test_marian_export_loses_nothing_on_a_test_set(export, scoring_options, saved_model):
    model = tiny_model()
    model.generation_config.update(num_beams=2, max_new_tokens=6, length_penalty_type="length")
    model.save_pretrained(saved_model)
    card = ModelCard.load(export("marian", *scoring_options) / "README.md")
    own = [r["translation_text"] for r in pipeline("translation", model=str(saved_model))(SOURCES)]
    assert row(card, "BLEU")[:2] == [f"{BLEU().corpus_score(own, [REFERENCES]).score:.2f}"] * 2
    assert row(card, "the same translation")[1] == "4 of 4 (100.0%)"
    assert "computed by PyTorch" in card.text


def test_export_keeps_the_license_of_the_models_card(export, saved_model):
    (saved_model / "README.md").write_text("---\nlicense: other\nlicense_name: ours\nlicense_link: LICENSE\n---\n")
    config = json.loads((saved_model / "config.json").read_text()) | {
        "source_language": "pt-BR",
        "target_language": "en",
    }
    (saved_model / "config.json").write_text(json.dumps(config))
    for to, library in (("marian", "transformers"), ("ctranslate2", "ctranslate2"), ("onnx", "onnx")):
        data = ModelCard.load(export(to) / "README.md").data
        assert (data.library_name, data.pipeline_tag, data.language) == (library, "translation", ["pt", "en"])
        assert (data.license, data.license_name, data.license_link) == ("other", "ours", "LICENSE")
        assert data.base_model is None


def test_card_states_the_base_model_and_the_quality_loss():
    card = ModelCard(export_card("you/ct2", "ctranslate2", "int8", 10_000_000, ORIGIN, COMPARISON))
    assert (card.data.base_model, card.data.base_model_relation) == ("you/de-en", "quantized")
    assert card.data.license == "mit" and card.data.metrics == ["bleu", "chrf"]
    # Differences are those of the rounded scores.
    assert row(card, "BLEU") == ["22.71", "22.72", "+0.01"]
    assert row(card, "chrF2") == ["41.48", "41.29", "-0.19"]
    assert row(card, "size of the weights") == ["40.0 MB", "10.0 MB", ""]
    assert "Translates single sentences from de to en: [you/de-en](https://huggingface.co/you/de-en)" in card.text
    assert 'pipeline("translation", model="you/ct2")' in card.text and "# A dog" in card.text


def test_card_without_a_test_set_says_what_was_not_measured():
    words = {"int8": "What int8 costs in quality was not measured", None: "the same tokens as the model's"}
    for quantization, expected in words.items():
        card = ModelCard(export_card("x", "onnx", quantization, 1, ORIGIN))
        assert expected in card.text
        assert ("not measured" in card.text) == (quantization == "int8")
        assert getattr(card.data, "base_model_relation", None) == ("quantized" if quantization else None)
    assert 'await pipeline("translation", "a\\"b")' in export_card('a"b', "transformers.js", None, 1, ORIGIN)


def test_model_without_a_config_on_the_hub_has_an_origin(monkeypatch, tokenizer):
    # Only the config of an adapter is there.
    monkeypatch.setattr(origin_module, "cached_file", lambda *_, **__: None)
    origin = read_origin("you/adapter", tiny_model(), tokenizer)
    assert (origin.hub_id, origin.size, origin.license) == ("you/adapter", 0, {})


def test_published_name_is_the_repository_id_or_none(tmp_path):
    assert type(published_name(InputPath("you/de-en"))) is str and published_name("you/de-en") == "you/de-en"
    assert published_name(str(tmp_path)) is None
    (tmp_path / "results.json").write_text("{")
    assert published_name(str(tmp_path)) is None


@pytest.mark.parametrize("to", ["marian", "ctranslate2", "onnx", "transformers.js"])
def test_exported_folder_is_pushed_with_all_files_and_its_card(to, export, hub_here):
    folder = export(to)
    assert main(["push", str(folder), "you/exported"]) == 0
    files = hub_here.repositories["you/exported"]["main"]
    own = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert files == own
    assert "README.md" in files


@pytest.mark.slow
@pytest.mark.skipif(
    transformers.__version__.startswith("5.17."), reason="transformers 5.17 has no search over a second vocabulary"
)
def test_separate_tokenizers_of_a_marian_export_are_pushed(separate, tmp_path):
    assert main(["export", str(separate), str(tmp_path / "marian")]) == 0
    names = set(files_to_push(tmp_path / "marian"))
    assert {"source_tokenizer/tokenizer.json", "target_tokenizer/tokenizer.json", "README.md"} <= names


def test_export_inside_a_model_folder_is_not_pushed_with_it(export, saved_model):
    assert main(["export", str(saved_model), str(saved_model / "onnx"), "--to", "onnx"]) == 0
    assert not [name for name in files_to_push(saved_model) if name.startswith("onnx")]


def test_all_test_set_errors_are_reported_before_the_model_is_loaded(write_lines, tmp_path, capsys):
    short, long = write_lines("short", ["w1"]), write_lines("long", ["w1", "w2"])
    blank = write_lines("blank", ["", " "])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")

    def errors(*options, output="new", to="onnx"):
        assert main(["export", "no/such/model", str(tmp_path / output), "--to", to, *options]) == 2
        return capsys.readouterr().err.splitlines()

    assert "--reference FILE" in errors("--source", short)[0]
    assert "--source FILE" in errors("--reference", short)[0]
    [error] = errors("--source", short, "--reference", long)
    assert "line 2 of" in error and "has no counterpart" in error
    [error] = errors("--source", blank, "--reference", long)
    assert error.endswith("has no text: all of its lines are blank.")
    lines = errors(
        "--source", str(tmp_path / "absent"), "--reference", short, "--quantization", "int16", output="full"
    )
    assert len(lines) == 3 and "int16" in lines[0] and "not an empty folder" in lines[1] and "absent" in lines[2]
    assert "--quantization is for --to" in errors("--quantization", "int8", to="marian")[0]
    assert not (tmp_path / "new").exists()
