"""Runs that distill other models word by word (`training.distill_from`): training, resuming, errors, and records."""

import json
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_vaswani.errors import InputError, TrainingInterrupted
from hf_vaswani.training.optimization.word_distillation import WordTeacher
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.replay.verification import Outcome, verify
from hf_vaswani.training.setup.inputs import RunInputs
from hf_vaswani.training.setup.word_teacher import word_teacher
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from .helpers import losses, run_training, same_weights

FAST = ("--max_steps=4", "--save_steps=2", "--eval_steps=100", "--eval_sentences=0")


@pytest.fixture
def teacher(recipe):
    """The folder of a trained model."""
    return train(recipe(*FAST, "--seed=7", output="teacher")).folder


@pytest.fixture
def distill(recipe, teacher):
    """Loads a recipe that distills `teacher`."""

    def load(*options, **kwargs):
        return recipe(*FAST, f"--distill_from={teacher}", f"--tokenizer.path={teacher}", *options, **kwargs)

    return load


def change_weights(folder) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.encoder.layers.0.fc1.bias"][0] += 1e-3
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.slow
def test_first_loss_of_a_copy_of_the_teacher_is_the_entropy_of_its_distributions(recipe, teacher):
    options = (f"--start_from={teacher}", f"--distill_from={teacher}", "--distill_weight=1", "--dropout=0")
    # All text in a single step.
    folder = train(recipe(*FAST, *options, "--max_steps=1", "--max_tokens=4000")).folder
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(teacher), AutoTokenizer.from_pretrained(teacher)
    entropy = tokens = 0
    for source, target in zip(*((teacher.parent / f"train.{side}").read_text().splitlines() for side in "xy")):
        batch = tokenizer(source, text_target=target, return_tensors="pt")
        with torch.no_grad():
            log_probabilities = model(**batch).logits[0].double().log_softmax(-1)
        entropy -= (log_probabilities.exp() * log_probabilities).sum().item()
        tokens += len(log_probabilities)
    assert losses(folder) == [pytest.approx(entropy / tokens, rel=1e-4)]


@pytest.mark.parametrize("precision", ["no", pytest.param("bf16", marks=pytest.mark.slow)])
def test_stopped_run_resumes_bit_for_bit(distill, precision):
    option = f"--mixed_precision={precision}"
    whole = train(distill(option, output="whole")).folder
    train(distill(option, "--max_steps=2", output="stopped"))
    assert same_weights(train(distill(option, output="stopped")).folder, whole)


@pytest.mark.slow
def test_both_loops_train_the_same_model(distill):
    expected = train(distill()).folder
    assert same_weights(train_with_trainer(distill(output="trainer")).folder, expected)


@pytest.mark.slow
def test_two_processes_train_the_same_model_as_one(recipe, distill, teacher, tmp_path):
    options = ("--dropout=0", "--max_tokens=60")
    expected = train(distill(*options, "--gradient_accumulation_steps=2")).folder
    more = (*FAST, *options, f"--distill_from={teacher}", f"--tokenizer.path={teacher}")
    run_training(recipe, *more, f"--output_dir={tmp_path / 'two'}", processes=2)
    assert losses(tmp_path / "two") == pytest.approx(losses(expected), rel=1e-4)


@pytest.fixture
def computed(monkeypatch, tmp_path) -> list[int]:
    """The number of pairs in each batch that a teacher computes, with an empty cache."""
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path / "cache"))
    pairs: list[int] = []
    for name in ("logits", "soft_labels"):
        method = getattr(WordTeacher, name)

        def counting(self, batch, vocab_size, method=method):
            pairs.append(len(batch["labels"]))
            return method(self, batch, vocab_size)

        monkeypatch.setattr(WordTeacher, name, counting)
    return pairs


@pytest.mark.parametrize(
    "filters", [pytest.param((), marks=pytest.mark.slow), ("--max_length=5",)], ids=["all pairs", "short pairs"]
)
@pytest.mark.slow
def test_soft_labels_of_all_tokens_train_nearly_as_whole_distributions_do(distill, filters):
    expected = losses(train(distill(*filters, output="whole")).folder)
    assert losses(train(distill(*filters, "--distill_top_k=1000")).folder) == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_soft_labels_of_mixed_sources_belong_to_the_right_pairs(recipe, teacher, tmp_path):
    for side in "xy":
        lines = (tmp_path / f"train.{side}").read_text().splitlines(keepends=True)
        (tmp_path / f"more.{side}").write_text("".join(lines[:20][::-1]))
    sources = [
        f"{{source: {tmp_path}/{name}.x, target: {tmp_path}/{name}.y, weight: 1}}" for name in ("more", "train")
    ]
    path, *files = recipe.command
    options = [*(option for option in files if not option.startswith("--train_")), f"--train=[{', '.join(sources)}]"]
    options += [*FAST, f"--distill_from={teacher}", f"--tokenizer.path={teacher}"]
    expected = losses(train(load_recipe(path, [*options, f"--output_dir={tmp_path / 'whole'}"])).folder)
    folder = train(load_recipe(path, [*options, "--distill_top_k=1000", f"--output_dir={tmp_path / 'soft'}"])).folder
    assert losses(folder) == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_soft_labels_of_one_token_are_the_teachers_choice(recipe, teacher):
    options = (f"--start_from={teacher}", f"--distill_from={teacher}", "--distill_weight=1", "--dropout=0")
    folder = train(recipe(*FAST, *options, "--distill_top_k=1", "--max_steps=1", "--max_tokens=4000")).folder
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(teacher), AutoTokenizer.from_pretrained(teacher)
    total = tokens = 0
    for source, target in zip(*((teacher.parent / f"train.{side}").read_text().splitlines() for side in "xy")):
        with torch.no_grad():
            logits = model(**tokenizer(source, text_target=target, return_tensors="pt")).logits[0]
        total -= logits.double().log_softmax(-1).amax(-1).sum().item()
        tokens += len(logits)
    assert losses(folder) == [pytest.approx(total / tokens, rel=1e-4)]


def test_soft_labels_are_computed_once_for_each_pair(distill, teacher, computed):
    train(distill("--distill_top_k=3", "--max_steps=2"))
    assert sum(computed) == len((teacher.parent / "train.x").read_text().splitlines())
    train(distill("--distill_top_k=3"))  # resumed
    train(distill("--distill_top_k=3", "--seed=9", output="other"))
    assert sum(computed) == len((teacher.parent / "train.x").read_text().splitlines())


@pytest.mark.slow
def test_soft_labels_of_changed_weights_are_computed_again(distill, teacher, computed):
    train(distill("--distill_top_k=3"))
    before = sum(computed)
    change_weights(teacher)
    train(distill("--distill_top_k=3", output="other"))
    assert sum(computed) == 2 * before


@pytest.mark.slow
def test_run_with_changed_weights_is_refused_before_soft_labels_are_computed(distill, teacher, computed):
    train(distill("--distill_top_k=3", "--max_steps=2"))
    before = list(computed)
    change_weights(teacher)
    with pytest.raises(InputError, match="the content of training.distill_from has changed"):
        train(distill("--distill_top_k=3"))
    assert computed == before


@pytest.mark.parametrize("precision", [pytest.param("no", marks=pytest.mark.slow), "bf16"])
@pytest.mark.slow
def test_stopped_run_with_soft_labels_resumes_bit_for_bit_even_without_the_cache(
    distill, computed, tmp_path, precision
):
    options = (f"--mixed_precision={precision}", "--distill_top_k=3")
    whole = train(distill(*options, output="whole")).folder
    train(distill(*options, "--max_steps=2", output="stopped"))
    before = sum(computed)
    shutil.rmtree(tmp_path / "cache")
    assert same_weights(train(distill(*options, output="stopped")).folder, whole)
    assert sum(computed) == 2 * before


@pytest.mark.slow
def test_finished_run_computes_no_soft_labels(distill, computed, tmp_path):
    train(distill("--distill_top_k=3"))
    before = list(computed)
    shutil.rmtree(tmp_path / "cache")
    train(distill("--distill_top_k=3"))
    assert computed == before


@pytest.mark.slow
def test_signal_stops_the_computation_of_soft_labels(distill, computed, monkeypatch):
    whole = train(distill("--distill_top_k=3", "--seed=9", output="whole")).folder
    computing = WordTeacher.soft_labels

    def stopped(*args):
        signal.raise_signal(signal.SIGTERM)
        return computing(*args)

    with monkeypatch.context() as patch:
        patch.setattr("hf_vaswani.training.setup.word_teacher.CPU_PASS_TOKENS", 40)  # several batches
        patch.setattr(WordTeacher, "soft_labels", stopped)
        patch.setenv("HF_VASWANI_CACHE", str(whole.parent / "other cache"))
        with pytest.raises(TrainingInterrupted, match="Stopped by SIGTERM while soft labels were computed"):
            train(distill("--distill_top_k=3", "--seed=9"))
    assert same_weights(train(distill("--distill_top_k=3", "--seed=9")).folder, whole)


def test_soft_labels_that_are_not_finite_are_an_error(distill, computed, monkeypatch):
    computing = WordTeacher.soft_labels

    def overflowing(*args):
        labels = computing(*args)
        labels.probabilities[0, 0, 0] = float("nan")
        return labels

    monkeypatch.setattr(WordTeacher, "soft_labels", overflowing)
    with pytest.raises(InputError, match="distill_from=.*teacher: the output is not finite with mixed_precision=no"):
        train(distill("--distill_top_k=3", "--mixed_precision=no"))


@pytest.mark.slow
def test_changed_config_of_the_teacher_gives_other_soft_labels(distill, teacher, computed):
    train(distill("--distill_top_k=3"))
    before = sum(computed)
    path = teacher / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "activation_function": "gelu"}))
    train(distill("--distill_top_k=3", output="other"))
    assert sum(computed) == 2 * before


@pytest.mark.slow
def test_both_loops_train_the_same_model_on_soft_labels(distill):
    expected = train(distill("--distill_top_k=3")).folder
    assert same_weights(train_with_trainer(distill("--distill_top_k=3", output="trainer")).folder, expected)


@pytest.mark.slow
def test_two_processes_train_the_same_model_as_one_on_soft_labels(recipe, distill, teacher, tmp_path):
    options = ("--dropout=0", "--max_tokens=60", "--distill_top_k=3")
    expected = train(distill(*options, "--gradient_accumulation_steps=2")).folder
    more = (*FAST, *options, f"--distill_from={teacher}", f"--tokenizer.path={teacher}")
    cache = f"--data.cache_dir={tmp_path / 'cache of two'}"
    run_training(recipe, *more, f"--output_dir={tmp_path / 'two'}", cache, processes=2)
    assert losses(tmp_path / "two") == pytest.approx(losses(expected), rel=1e-4)


@pytest.mark.slow
def test_verify_repeats_a_run_with_soft_labels(distill):
    assert verify(str(train(distill("--distill_top_k=3")).folder)).verdict == "identical bit for bit"


@pytest.mark.slow
def test_card_and_cost_of_a_run_with_soft_labels(recipe, distill, teacher):
    plain = train(recipe(*FAST, f"--tokenizer.path={teacher}", "--max_tokens=4000", output="plain"))
    report = train(distill("--distill_top_k=3", "--max_tokens=4000"))
    card = (report.folder / "README.md").read_text(encoding="utf-8")
    assert "the distributions of teacher over the next token, cut to the 3 most probable ones" in card
    # Four epochs of training, one of the teacher's forward passes.
    assert report.flops == pytest.approx(plain.flops * (1 + 1 / 12))


def test_text_that_is_tokenized_in_each_epoch_has_no_soft_labels(recipe):
    options = ("--distill_from=a", "--tokenizer.path=a", "--distill_top_k=3")
    with pytest.raises(InputError, match="distill_top_k=3 needs text that is tokenized once, but data.streaming=True"):
        recipe(*options, "--data.streaming=true")
    with pytest.raises(InputError, match="but tokenizer.bpe_dropout=0.1 tokenizes it again in each epoch: choose"):
        recipe(*options, "--bpe_dropout=0.1")
    with pytest.raises(InputError, match="distill_top_k=3 has no effect without training.distill_from: remove it"):
        recipe("--distill_top_k=3")


@pytest.mark.slow
def test_run_is_not_resumed_with_changed_weights_of_the_teacher(distill, teacher):
    train(distill("--max_steps=2"))
    change_weights(teacher)
    with pytest.raises(InputError, match="the content of training.distill_from has changed"):
        train(distill())


@pytest.mark.slow
def test_verify_repeats_the_run_and_notices_a_changed_teacher(distill, teacher):
    folder = train(distill()).folder
    assert verify(str(folder)).verdict == "identical bit for bit"
    change_weights(teacher)
    outcomes = {finding.part: finding.outcome for finding in verify(str(folder)).findings}
    assert outcomes["teacher"] == outcomes["steps 1 to 4"] == Outcome.DIFFERENT
    assert outcomes["initial weights"] == outcomes["recipe"] == Outcome.EQUAL


@pytest.mark.slow
def test_verify_asks_for_a_teacher_that_has_moved(distill, teacher):
    folder = train(distill()).folder
    moved = teacher.rename(teacher.with_name("elsewhere"))
    with pytest.raises(InputError, match="--training.distill_from FOLDER"):
        verify(str(folder))
    options = [f"--distill_from={moved}", f"--tokenizer.path={moved}"]
    assert verify(str(folder), options).verdict == "identical bit for bit"


@pytest.mark.slow
def test_card_says_what_was_distilled_and_the_cost_includes_the_teacher(recipe, distill, teacher):
    plain = train(recipe(*FAST, f"--tokenizer.path={teacher}", output="plain"))
    report = train(distill("--distill_weight=0.3"))
    card = (report.folder / "README.md").read_text(encoding="utf-8")
    assert "30% of the loss against the distributions of teacher over the next token" in card
    assert report.flops == pytest.approx(plain.flops * 4 / 3)
    assert json.loads((report.folder / "results.json").read_text())["flops"] == report.flops


def test_opened_teacher_computes_no_gradient_and_draws_no_dropout(distill):
    given = distill("--dropout=0.5")
    teacher = word_teacher(RunInputs(given), None, None)
    batch = {
        "input_ids": torch.tensor([[5, 6, 2]]),
        "attention_mask": torch.ones(1, 3),
        "labels": torch.tensor([[5, 2]]),
    }
    first, second = (teacher.logits(batch, 10)[0] for _ in range(2))
    assert teacher.models[0].config.dropout == 0.1 and not first.requires_grad
    assert torch.equal(first, second)


@pytest.mark.slow
def test_length_limit_of_the_teacher_applies_to_the_text(recipe):
    learned = ("--position_type=learned", "--max_position_embeddings=6", "--max_length=6")
    teacher = train(recipe(*FAST, *learned, output="learned")).folder
    options = (f"--distill_from={teacher}", f"--tokenizer.path={teacher}")
    with pytest.raises(
        InputError, match="training.distill_from=.*: data.max_length=7 exceeds its 6 learned positions"
    ):
        train(recipe(*FAST, *options, "--max_length=7"))
    with pytest.raises(InputError, match="data.max_length_coverage=1.0 amounts to 7 tokens, more"):
        train(recipe(*FAST, *options, "--max_length_coverage=1", "--max_length=null"))


def test_run_in_both_directions_does_not_take_a_teacher_for_one(recipe):
    folder = train(recipe(*FAST, "--source_language=de", "--target_language=en", output="teacher2")).folder
    options = (f"--distill_from={folder}", f"--tokenizer.path={folder}", "--data.text=[own, reversed]")
    with pytest.raises(InputError, match="translates .*, not the run's languages"):
        train(recipe(*FAST, *options))


def test_list_of_teachers_can_be_given_in_brackets_or_with_commas(recipe):
    for text in ("[a, b]", "a, b", "a,b"):
        given = recipe(f"--distill_from={text}", "--tokenizer.path=a")
        assert given.training.teachers == ["a", "b"] and given.training.distill_weight == 0.5


def test_errors_about_the_teacher_are_reported_together(recipe, distill, teacher):
    other = train(recipe(*FAST, "--vocab_size=15", output="other")).folder
    names = f"{other},{teacher / 'nowhere'},{teacher}/checkpoints/update-00000004"
    with pytest.raises(InputError) as error:
        train(distill(f"--distill_from={names}"))
    first, second, third = str(error.value).splitlines()
    assert f"training.distill_from={other}: its vocabulary is not the run's" in first
    assert second.startswith("training.distill_from: ") and "nowhere" in second
    assert "is a checkpoint, which has only weights" in third


def test_teacher_of_other_languages_is_an_error(recipe):
    folder = train(recipe(*FAST, "--source_language=de", "--target_language=en", output="teacher2")).folder
    options = (f"--distill_from={folder}", f"--tokenizer.path={folder}", "--source_language=en")
    with pytest.raises(InputError, match="translates de to en, not the run's languages"):
        train(recipe(*FAST, *options, "--target_language=de"))


def test_conflicting_keys_are_reported_together(recipe):
    with pytest.raises(InputError) as error:
        recipe("--distill_from=a", "--r_drop=1")
    assert str(error.value).splitlines() == [
        "training.r_drop=1.0 and training.distill_from=a are both given; choose one",
        "training.distill_from=a needs a run with the same vocabulary: set tokenizer.path=a, or start from a model "
        "that has it (training.start_from)",
    ]
    with pytest.raises(InputError, match="distill_weight=0.3 has no effect without training.distill_from: remove it"):
        recipe("--distill_weight=0.3")


@pytest.mark.slow
def test_run_resumes_after_its_folder_and_that_of_its_teacher_have_moved_together(recipe, tmp_path):
    def distilled(*options, place):
        teacher = train(recipe(*FAST, "--seed=7", output=f"{place}/teacher")).folder
        named = (f"--distill_from={teacher}", f"--tokenizer.path={teacher}")
        options = (*FAST, "--save_steps=1", "--lr_scheduler_type=inverse_sqrt", *named, *options)
        return train(recipe(*options, output=f"{place}/student")).folder

    whole = distilled(place="whole")
    distilled("--max_steps=2", place="before")
    (tmp_path / "before").rename(tmp_path / "after")
    resumed = distilled(place="after")
    assert same_weights(resumed, whole)
    assert verify(str(resumed)).verdict == "identical bit for bit"
    moved = (tmp_path / "after").rename(tmp_path / "moved")
    places = [f"--distill_from={moved / 'teacher'}", f"--tokenizer.path={moved / 'teacher'}"]
    assert verify(str(moved / "student"), places).verdict == "identical bit for bit"
