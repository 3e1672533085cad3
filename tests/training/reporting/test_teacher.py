"""The comparison of a final model with another one (`evaluation.compare_with`), in results and on the card."""

import json

import pytest
import sacrebleu
from transformers import pipeline

from hf_vaswani.errors import InputError
from hf_vaswani.training.replay.verification import verify
from hf_vaswani.training.reporting import teacher as teacher_module
from hf_vaswani.training.train import train

from ...families import family


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch):
    monkeypatch.setattr(teacher_module, "SHORTEST", 0.0)


@pytest.fixture
def other(recipe):
    return train(recipe("--max_steps=4", output="other")).folder


def translations(folder, sources, **search) -> list[str]:
    return [found["translation_text"] for found in pipeline("translation", model=str(folder))(sources, **search)]


@pytest.mark.slow
def test_model_is_compared_with_another_on_the_test_set(recipe, other, tmp_path):
    report = train(recipe("--max_steps=8", "--seed=2", f"--compare_with={other}"))
    sources, references = ((tmp_path / f"test.{side}").read_text().splitlines() for side in "xy")
    taught, learned = translations(other, sources), translations(report.folder, sources, num_beams=1)
    found = json.loads((report.folder / "results.json").read_text())["teacher"]
    assert (found["models"], found["sentences"], found["test"]) == (["other"], 8, "test")
    assert (found["teacher"]["search"], found["student"]["search"]) == ("beam 2", "greedy")
    for name, texts in (("teacher", taught), ("student", learned)):
        assert found[name]["bleu"] == pytest.approx(sacrebleu.corpus_bleu(texts, [references]).score)
        assert found[name]["chrf2"] == pytest.approx(sacrebleu.corpus_chrf(texts, [references]).score)
        assert found[name]["sentences_per_second"] > 0
    assert found["agreement"] == pytest.approx(sacrebleu.corpus_bleu(learned, [taught]).score)
    card = (report.folder / "README.md").read_text()
    assert "| teacher: other |" in card and str(tmp_path) not in card


@pytest.mark.slow
def test_comparison_can_be_added_to_a_finished_run_with_an_ensemble(recipe, other, tmp_path):
    folder = train(recipe("--max_steps=4")).folder
    weights = (folder / "model.safetensors").read_bytes()
    train(recipe("--max_steps=4", f"--compare_with={other},{other}"))
    assert (folder / "model.safetensors").read_bytes() == weights
    found = json.loads((folder / "results.json").read_text())["teacher"]
    assert found["models"] == ["other", "other"]
    train(recipe("--max_steps=4"))
    assert "teacher" not in json.loads((folder / "results.json").read_text())


def test_missing_model_is_an_error_before_training(recipe, tmp_path):
    with pytest.raises(InputError, match="evaluation.compare_with.*nowhere"):
        train(recipe("--max_steps=4", f"--compare_with={tmp_path / 'nowhere'}"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_replay_does_not_need_the_other_model(recipe, other):
    folder = train(recipe("--max_steps=4", f"--compare_with={other}")).folder
    other.rename(other.with_name("elsewhere"))
    assert verify(str(folder)).verdict == "identical bit for bit"


def test_multilingual_model_is_an_error_before_training(recipe, tmp_path):
    model, tokenizer = family("NLLB", tmp_path)
    model.save_pretrained(tmp_path / "nllb")
    tokenizer.save_pretrained(tmp_path / "nllb")
    with pytest.raises(InputError, match="evaluation.compare_with=.*nllb is multilingual"):
        train(recipe(f"--compare_with={tmp_path / 'nllb'}"))
    assert not (tmp_path / "out").exists()
