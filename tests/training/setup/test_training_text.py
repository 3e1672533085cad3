"""What a model stores about its training text, and keeps through exports."""

from types import SimpleNamespace

import pytest
from transformers import AutoConfig

from hf_vaswani import VaswaniConfig
from hf_vaswani.cli import main
from hf_vaswani.models.ensemble import Ensemble
from hf_vaswani.training.setup.training_batches import describe_training_text
from hf_vaswani.training.train import train

from ...conftest import tiny_model


def described(config) -> tuple:
    return config.longest_training_source, config.multi_sentence_share, config.length_ratio


def test_sources_with_several_sentences_are_counted():
    config = VaswaniConfig()
    assert described(config) == (None, None, None)
    sample = [("Ja. Nein.", "1234"), ("Es ist z. B. so.", "12"), ("Gut!", "ä"), (" Ja? ", "1")]
    describe_training_text(config, SimpleNamespace(longest_source=17), sample)
    # 9 + 16 + 4 + 5 bytes, and 4 + 2 + 2 + 1.
    assert described(config) == (17, 0.25, 0.2647)  # 9 / 34, in four digits
    assert described(VaswaniConfig.from_dict(config.to_dict())) == described(config)


def test_ratio_of_very_uneven_sides_stays_above_zero():
    config = VaswaniConfig()
    describe_training_text(config, SimpleNamespace(longest_source=3), [("a" * 400_000, "b")])
    assert described(VaswaniConfig.from_dict(config.to_dict()))[2] == pytest.approx(1 / 400_000)


@pytest.mark.slow
def test_training_measures_its_text_and_fine_tuning_measures_its_own(recipe, write_lines):
    # As many tokens as letters, spaces aside, since the vocabulary has no room for merges, and the end token.
    first = train(recipe("--max_steps=1", "--tokenizer.type=word")).folder
    config = VaswaniConfig.from_pretrained(first)
    assert described(config) == (7, 0.0, 1.0)
    lines = ["ab. cd.", "abc", "ab. Cd", "c"] * 10
    options = [f"--train_source={write_lines('more.x', lines)}", f"--train_target={write_lines('more.y', lines)}"]
    again = train(recipe(f"--start_from={first}", "--max_steps=1", *options, output="again")).folder
    assert described(VaswaniConfig.from_pretrained(again))[1:] == (0.5, 1.0)
    assert main(["average", str(again), "--output", str(first.parent / "mean")]) == 0
    assert described(VaswaniConfig.from_pretrained(first.parent / "mean"))[1:] == (0.5, 1.0)


@pytest.mark.parametrize("engine", ["ctranslate2", "onnx"])
def test_exports_keep_it(engine, saved_model, tokenizer, tmp_path):
    pytest.importorskip(engine)
    known = {"longest_training_source": 9, "multi_sentence_share": 0.5, "length_ratio": 1.2}
    tiny_model(**known).save_pretrained(saved_model)
    assert main(["export", str(saved_model), str(tmp_path / "engine"), "--to", engine]) == 0
    assert described(AutoConfig.from_pretrained(tmp_path / "engine")) == (9, 0.5, 1.2)


def test_ensemble_knows_what_all_of_its_members_know():
    members = [tiny_model(longest_training_source=length, multi_sentence_share=0.5) for length in (9, 7)]
    assert described(Ensemble(members).config) == (7, 0.5, None)
    assert described(Ensemble([*members, tiny_model()]).config) == (None, None, None)


@pytest.mark.parametrize("wrong", [{"multi_sentence_share": 1.5}, {"length_ratio": 0}, {"longest_training_source": 0}])
def test_impossible_values_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        VaswaniConfig(**wrong)
