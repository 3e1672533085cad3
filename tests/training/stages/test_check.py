"""Errors in stages, and changes that decide whether a stage is redone, all found before any stage runs."""

import json
import shutil

import pytest
import torch

from hf_vaswani.data.tokenizers.tokenizer import save_tokenizer
from hf_vaswani.errors import InputError, TrainingError, TrainingInterrupted
from hf_vaswani.training import build as build_module
from hf_vaswani.training.stages import run as run_module
from hf_vaswani.training.stages.check import find_stages
from hf_vaswani.training.stages.plan import make_plan
from hf_vaswani.training.stages.record import model_digest
from hf_vaswani.training.stages.together import together_errors
from hf_vaswani.training.train import train

from ..helpers import files_in, same_weights
from .conftest import stop_in_second_window

ONLY_FORWARD = {"both": None, "mean": None, "backward": None}
NO_STAGES = {"both": None, "mean": None, "forward": None, "backward": None}
FROM_BOTH = {"mean": None, "forward": None, "backward": None}


class Killed(BaseException):
    """Stands in for a kill."""


def kill_after_stages(begin_output):
    """`begin_output` for stages, and a kill for the last run."""

    def begin(recipe, *arguments):
        if recipe.whole:
            raise Killed
        return begin_output(recipe, *arguments)

    return begin


@pytest.fixture
def distilled(staged, saved_model):
    """Loads a recipe whose only stage translates the training text with an existing model."""

    def load(*options, **translate):
        forward = {"translate": {"model": str(saved_model), "max_new_tokens": 8, **translate}}
        return staged("--start_from=null", "--data.text=[forward]", *options, forward=forward, **ONLY_FORWARD)

    return load


def append(path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_line_missing_at_the_end_of_a_text_is_found_before_translating(distilled, tmp_path, monkeypatch, split):
    monkeypatch.setattr(run_module, "make_pairs", lambda *_: pytest.fail("a stage translated"))
    append(tmp_path / f"{split}.source", "a b c\n")
    with pytest.raises(InputError, match=rf"data.{split}: .*{split}\.(source|target)"):
        train(distilled())


def test_begun_translation_resumes_after_a_later_line_of_the_training_text_was_corrected(
    distilled, tmp_path, monkeypatch
):
    texts = [f"{'abcdefgh'[i % 8]} b {'abc'[i % 3]}" for i in range(200)]
    for side in ("source", "target"):
        (tmp_path / f"train.{side}").write_text("".join(f"{text}\n" for text in texts))
    sizes = stop_in_second_window(monkeypatch)
    with pytest.raises(TrainingInterrupted):
        train(distilled(sample=1))
    texts[-1] = "h h h"
    (tmp_path / "train.source").write_text("".join(f"{text}\n" for text in texts))
    train(distilled(sample=1))
    assert sizes[:3] == [128, 72, 72]


def test_complete_translation_of_a_file_that_has_changed_since_is_not_used(distilled, tmp_path):
    file = tmp_path / "mono.txt"
    file.write_text("a b\nc d e\n")
    with pytest.raises(TrainingError, match="no pairs are left"):
        train(distilled(input=str(file), sample=1, min_score=0))
    file.write_text("a b\nc d f\n")
    with pytest.raises(InputError, match=r"stages.forward: .*mono.txt has changed"):
        train(distilled(input=str(file), sample=1))


def test_keeping_the_closest_translation_needs_text_that_has_translations(distilled, tmp_path):
    file = tmp_path / "mono.txt"
    file.write_text("a b\nc d e\n")
    with pytest.raises(InputError, match=r"forward.translate.keep_closest: .*mono.txt contains no translations"):
        train(distilled(input=str(file), num_beams=2, n_best=2, keep_closest="bleu"))


def test_last_run_from_a_stage_retrained_since_is_not_used_if_the_command_was_stopped(staged, tmp_path, monkeypatch):
    def load(*options, output="out"):
        return staged("--data.text=[own]", *options, output=output, **FROM_BOTH)

    train(load())
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(build_module, "begin_output", kill_after_stages(build_module.begin_output))
        train(load("--both.learning_rate=0.01", "--overwrite=true"))
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    with pytest.raises(InputError, match="contains a run that used another model or text from both"):
        train(load("--both.learning_rate=0.01"))
    train(load("--both.learning_rate=0.01", "--overwrite=true"))
    train(load("--both.learning_rate=0.01", output="undisturbed"))
    assert same_weights(tmp_path / "out", tmp_path / "undisturbed")


def test_last_run_of_other_stages_is_refused_and_kept(staged, tmp_path):
    train(staged())
    before = files_in(tmp_path / "out")
    for changes in ("--data.text={own: 2, forward: 1}", "--start_from=mean"):
        with pytest.raises(InputError, match="contains a run of another recipe"):
            train(staged(changes))
    assert files_in(tmp_path / "out") == before


def test_stages_recorded_before_a_key_existed_have_its_default(staged, tmp_path):
    train(staged())
    for name, section, key in (("both", "training", "optim"), ("forward", None, "min_score")):
        path = tmp_path / "out" / "stages" / f"{name}.json"
        record = json.loads(path.read_text())
        del (record["settings"][section] if section else record["settings"])[key]
        path.write_text(json.dumps(record))
    found, errors = find_stages(make_plan(staged()), {})
    assert errors == [] and all(map(found.is_finished, ("both", "forward", "mean", "backward")))


def test_average_whose_weights_are_missing_is_computed_again(staged, tmp_path):
    train(staged())
    weights = tmp_path / "out" / "stages" / "mean" / "model.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    train(staged("--overwrite=true"))
    assert weights.read_bytes() == before


def test_translations_use_a_fixed_number_of_threads(staged, monkeypatch):
    before, used = torch.get_num_threads(), []
    make_pairs = run_module.make_pairs

    def recorded(*arguments):
        used.append(torch.get_num_threads())
        return make_pairs(*arguments)

    monkeypatch.setattr(run_module, "make_pairs", recorded)
    monkeypatch.setattr(run_module, "cores_of_run", lambda *_: 3)
    try:
        train(staged("--cpu_threads=1"))
        assert used == [3, 3] and torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_swapped_languages_that_are_column_names_change_a_translation(staged):
    def digests(*names):
        recipe = staged(*(f"--{side}_language={name}" for side, name in zip(("source", "target"), names)))
        return find_stages(make_plan(recipe), {})[0].inputs["forward"]

    assert digests("german", "english") != digests("english", "german")


def test_digest_covers_a_tokenizer_alone_and_a_file(tokenizer, tmp_path):
    assert model_digest(tmp_path) == ""
    save_tokenizer(tokenizer, tmp_path)
    first = model_digest(tmp_path)
    (tmp_path / "tokenizer.json").write_text((tmp_path / "tokenizer.json").read_text().replace("w7", "x7"))
    assert first and model_digest(tmp_path) not in (first, "")
    (tmp_path / "model.pt").write_bytes(b"1")
    assert model_digest(tmp_path / "model.pt")


def errors_together(staged, name: str, **stages) -> list[str]:
    recipe = staged("--data.text=[own]", **{**FROM_BOTH, **stages})
    return together_errors(recipe.stages[name], recipe.stages)


def test_ensemble_of_stages_with_different_vocabularies_is_an_error(staged):
    small = {"train": {"tokenizer": {"vocab_size": 50}}}
    pair = {"translate": {"model": ["both", "small"]}}
    assert errors_together(staged, "forward", small=small, forward=pair) == [
        "translate.model: stages 'small' and 'both' learn vocabularies from different text, or with different "
        "settings. Set tokenizer.path: both in stage 'small', or in the stage that it starts from"
    ]
    small["train"]["tokenizer"] = {"path": "both"}
    assert errors_together(staged, "forward", small=small, forward=pair) == []
    # `both` also reads its text reversed: the same words, counted twice.
    one_direction = {"train": {"data": {"text": ["own"]}}}
    assert len(errors_together(staged, "forward", small=one_direction, forward=pair)) == 1
    every = {"train": {"tokenizer": {"min_frequency": 1}, "data": {"text": ["own", "reversed"]}}}
    one_direction["train"]["tokenizer"] = {"min_frequency": 1}
    assert errors_together(staged, "forward", both=every, small=one_direction, forward=pair) == []


def test_average_of_stages_with_different_weights_is_an_error(staged):
    wide = {"train": {"tokenizer": {"path": "both"}, "model": {"encoder_ffn_dim": 96, "dropout": 0.3}}}
    further = {"train": {"model": {"dropout": 0.2}, "training": {"start_from": "both"}}}
    mean = {"average": {"models": ["both", "further", "wide"]}}
    assert errors_together(staged, "mean", wide=wide, further=further, mean=mean) == [
        "average.models: stages 'wide' and 'both' have different architectures: model.encoder_ffn_dim must be the "
        "same in both"
    ]


def test_average_of_a_stage_that_leaves_an_adapter_is_an_error(staged):
    adapter = {"train": {"training": {"start_from": "both"}, "peft": {"r": 2}}}
    mean = {"average": {"models": ["both", "adapter"]}}
    [error] = errors_together(staged, "mean", adapter=adapter, mean=mean)
    assert error.startswith("average.models: stage 'adapter' trains an adapter. Set peft.merge: true")
    adapter["train"]["peft"]["merge"] = True
    assert errors_together(staged, "mean", adapter=adapter, mean=mean) == []
    mean["average"]["last"] = 2
    [error] = errors_together(staged, "mean", adapter=adapter, mean=mean)
    assert error.endswith(
        "Average its final model, without average.last and average.best, and set peft.merge: true in it"
    )


def test_stages_that_start_from_different_models_may_have_the_same_vocabulary(staged, saved_model, tmp_path):
    shutil.copytree(saved_model, tmp_path / "copy")
    one, two = ({"train": {"training": {"start_from": str(path)}}} for path in (saved_model, tmp_path / "copy"))
    assert errors_together(staged, "mean", one=one, two=two, mean={"average": {"models": ["one", "two"]}}) == []
    pair = {"translate": {"model": ["one", str(saved_model), "two"]}}
    assert errors_together(staged, "forward", one=one, two=two, forward=pair) == []


def test_ensemble_of_a_stage_that_learns_a_vocabulary_and_a_model_that_has_one_is_an_error(staged, saved_model):
    pair = {"translate": {"model": ["both", str(saved_model)]}}
    [error] = errors_together(staged, "forward", forward=pair)
    assert "stage 'both' learns a vocabulary" in error and f"tokenizer.path: {saved_model} in stage 'both'" in error


def test_ensemble_with_two_vocabularies_that_exist_is_an_error(staged, saved_model, tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    (tmp_path / "tokenizer.json").write_text((tmp_path / "tokenizer.json").read_text().replace("w7", "x7"))
    one, two = ({"train": {"tokenizer": {"path": str(path)}}} for path in (saved_model, tmp_path))
    pair = {"translate": {"model": ["one", "two"]}}
    assert errors_together(staged, "forward", one=one, two=two, forward=pair) == [
        "translate.model: 'two' has a different vocabulary from 'one'. Use the same tokenizer.path, or other models"
    ]


@pytest.mark.parametrize("key, value", [("drop_duplicates", True), ("validation_share", 0.1)])
def test_stages_that_filter_or_divide_the_text_differently_learn_different_vocabularies(staged, key, value):
    other = {"train": {"data": {"text": ["own", "reversed"], key: value}}}
    pair = {"translate": {"model": ["both", "other"]}}
    [error] = errors_together(staged, "forward", other=other, forward=pair)
    assert "learn vocabularies from different text" in error


def test_average_of_stages_whose_weights_mean_different_things_is_an_error(staged):
    other = {"train": {"tokenizer": {"path": "both"}, "model": {"encoder_attention_heads": 4}}}
    [error] = errors_together(staged, "mean", other=other, mean={"average": {"models": ["both", "other"]}})
    assert "different architectures: model.encoder_attention_heads must be the same" in error


def test_run_with_too_few_checkpoints_to_average_is_found_before_any_stage_runs(staged, tmp_path, monkeypatch):
    train(staged("--start_from=null", "--data.text=[own]", output="other", **NO_STAGES))
    monkeypatch.setattr(run_module, "_begin", lambda *_: pytest.fail("a stage began"))
    mean = {"average": {"models": ["both", str(tmp_path / "other")], "last": 4}}
    with pytest.raises(InputError, match=r"stages.mean.average.models: .*other has too few checkpoints: 4 needed"):
        train(staged("--data.text=[own]", mean=mean, forward=None, backward=None))


def test_finished_average_of_a_run_that_was_trained_further_is_stale(staged, tmp_path):
    def other(steps: int):
        options = ("--start_from=null", "--data.text=[own]", "--lr_scheduler_type=constant", f"--max_steps={steps}")
        return staged(*options, output="other", **NO_STAGES)

    train(other(4))
    mean = {"average": {"models": [str(tmp_path / "other")], "last": 1}}
    train(staged("--data.text=[own]", "--start_from=mean", mean=mean, both=None, forward=None, backward=None))
    train(other(6))
    recipe = staged("--data.text=[own]", "--start_from=mean", mean=mean, both=None, forward=None, backward=None)
    _, [error, *_] = find_stages(make_plan(recipe), {})
    assert "checkpoints of" in error and "has changed" in error


def test_line_missing_at_the_end_of_a_text_is_found_before_training_an_earlier_stage(staged, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "_begin", lambda *_: pytest.fail("a stage began"))
    append(tmp_path / "test.source", "a b c\n")
    with pytest.raises(InputError, match=r"data.test: .*test\.(source|target)"):
        train(staged("--data.text=[own]", mean=None, forward=None, backward=None))


def test_average_of_stages_with_a_vocabulary_for_each_side_is_no_error(staged):
    first = {"train": {"tokenizer": {"joint": False}}}
    second = {"train": {"tokenizer": {"path": "first"}}}
    mean = {"average": {"models": ["first", "second"]}}
    assert errors_together(staged, "mean", first=first, second=second, mean=mean) == []


def test_training_text_that_nothing_reads_is_not_read_to_its_end(distilled, tmp_path):
    append(tmp_path / "train.source", "a b c\n")
    mono = tmp_path / "mono.txt"
    mono.write_text("a b\nc d e\n")
    assert train(distilled(input=str(mono), sample=1)).steps == 6


def test_errors_of_models_together_are_reported_before_any_stage_runs(staged, tmp_path):
    small = {"train": {"tokenizer": {"vocab_size": 50}}}
    forward = {"translate": {"model": ["both", "small"]}}
    with pytest.raises(InputError, match="stages.forward.translate.model: stages 'small' and 'both' learn"):
        train(staged(small=small, forward=forward))
    assert not (tmp_path / "out").exists()


def test_model_that_a_stage_translates_with_is_not_overwritten(staged, tmp_path):
    train(staged("--data.text=[own]", **FROM_BOTH))
    before = files_in(tmp_path / "out")
    teacher = {"translate": {"model": str(tmp_path / "out"), "max_new_tokens": 8}}
    # In a recipe of its own, in the same folder.
    content = {"both": None, "mean": None, "forward": teacher, "backward": None}
    with pytest.raises(InputError, match="stages.forward.translate.model: .*out, or a part of it, would be deleted"):
        train(staged("--data.text=[own, forward]", "--start_from=null", "--overwrite=true", **content))
    assert files_in(tmp_path / "out") == before


def test_stage_without_checkpoints_is_trained_further_only_by_redoing_it(staged, tmp_path):
    def load(*options):
        return staged("--data.text=[own]", *options, **FROM_BOTH)

    train(load())
    shutil.rmtree(tmp_path / "out" / "stages" / "both" / "checkpoints")
    before = files_in(tmp_path / "out")
    with pytest.raises(InputError, match="both contains another stage .*its checkpoints are gone.*overwrite true"):
        train(load("--both.max_steps=10"))
    assert files_in(tmp_path / "out") == before
    assert train(load()).steps == 6  # what is finished can still be used
    train(load("--both.max_steps=10", "--overwrite=true"))
    assert json.loads((tmp_path / "out" / "stages" / "both.json").read_text())["is_finished"]
    assert (tmp_path / "out" / "stages" / "both" / "checkpoints" / "update-00000010").exists()


def test_finished_stage_stays_finished_if_its_run_is_refused(staged, tmp_path, monkeypatch):
    train(staged("--data.text=[own]", **FROM_BOTH))
    before = files_in(tmp_path / "out")

    def refuse(recipe, *arguments):
        raise InputError("refused")

    with monkeypatch.context() as patched, pytest.raises(InputError, match="refused"):
        patched.setattr(build_module, "begin_output", refuse)
        train(staged("--data.text=[own]", "--both.max_steps=10", "--overwrite=true", **FROM_BOTH))
    assert files_in(tmp_path / "out") == before


def test_stage_that_failed_before_its_first_weights_can_be_corrected(staged, tmp_path, monkeypatch):
    def fail(recipe, *arguments):
        raise InputError("too large")

    with monkeypatch.context() as patched, pytest.raises(InputError, match="too large"):
        patched.setattr(build_module, "begin_output", fail)
        train(staged("--data.text=[own]", "--both.learning_rate=0.01", **FROM_BOTH))
    assert (tmp_path / "out" / "stages" / "both.json").exists()
    assert train(staged("--data.text=[own]", **FROM_BOTH)).steps == 6


def test_streaming_run_is_not_resumed_on_pairs_that_were_made_again(staged, tmp_path, monkeypatch):
    def load(*options):
        changes = {"backward": None, "mean": None}
        return staged("--data.text=[own, forward]", "--streaming=true", "--max_length=40", *options, **changes)

    train(load())
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(build_module, "begin_output", kill_after_stages(build_module.begin_output))
        train(load("--forward.n_best=1", "--overwrite=true"))
    with pytest.raises(InputError, match="contains a run that used another model or text from forward"):
        train(load("--forward.n_best=1"))


def errors_before(staged, *options, **stages) -> str:
    """The errors that are reported before any stage runs."""
    with pytest.raises(InputError) as error:
        train(staged("--data.text=[own]", *options, output="none", **{**FROM_BOTH, **stages}))
    return str(error.value)


def test_start_from_a_stage_that_leaves_an_adapter_is_an_error_before_any_stage_runs(staged, tmp_path):
    adapter = {"train": {"training": {"start_from": "both"}, "peft": {"r": 2}}}
    error = errors_before(staged, "--start_from=adapter", adapter=adapter)
    assert error.startswith("training.start_from: stage 'adapter' trains an adapter. Set peft.merge: true")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("given", "own"),
    [({"d_model": 64}, {}), ({"encoder_attention_heads": 4}, {}), ({}, {"encoder_attention_heads": 3})],
    ids=["width", "heads", "heads that do not divide the width"],
)
def test_architecture_that_contradicts_the_stage_it_starts_from_is_an_error_before_any_stage_runs(
    staged, tmp_path, given, own
):
    both = {"train": {"data": {"text": ["own", "reversed"]}, "model": given}}
    further = {"train": {"training": {"start_from": "both"}, "model": own}}
    error = errors_before(staged, "--start_from=further", both=both, further=further)
    [key] = {**given, **own}
    where = "stages.further.model" if own else "model"
    assert f"{where}.{key}=" in error and "contradicts training.start_from: stage" in error
    assert not (tmp_path / "none").exists()


def test_run_that_starts_from_a_mean_is_checked_with_the_architecture_of_its_models(staged):
    both = {"train": {"data": {"text": ["own", "reversed"]}, "model": {"encoder_layers": 2}}}
    options = ["--data.text=[own]", "--start_from=mean", "--encoder_layers=2", "--freeze=[model.encoder.layers.1]"]
    recipe = staged(*options, both=both, forward=None, backward=None)
    recipe.model.pop("encoder_layers")
    assert train(recipe).steps == 6


def test_adapter_of_a_finished_stage_is_merged_when_asked_for(staged, tmp_path):
    adapter = {"train": {"training": {"start_from": "both"}, "peft": {"r": 2}}}
    train(staged("--data.text=[own]", adapter=adapter, **FROM_BOTH))
    folder = tmp_path / "out" / "stages" / "adapter"
    assert not (folder / "model.safetensors").exists()
    adapter["train"]["peft"]["merge"] = True
    train(staged("--data.text=[own]", adapter=adapter, **FROM_BOTH))
    assert (folder / "model.safetensors").exists()
