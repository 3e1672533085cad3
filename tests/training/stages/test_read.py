"""What a recipe and the command line say about stages: inheritance, options, and all errors reported together."""

import pytest
import yaml

from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.recipe.shared_recipe import shared_recipe
from hf_vaswani.training.stages.order import cycle, in_order


def errors_of(staged, *options, **changes) -> str:
    with pytest.raises(InputError) as error:
        staged(*options, **changes)
    return str(error.value)


def test_training_stage_inherits_the_values_that_it_does_not_set(staged):
    recipe = staged("--seed=7", "--peft.r=2", "--evaluation.mbr=bleu")
    both = recipe.stages["both"].arguments
    assert (both.training.max_steps, both.training.lr_scheduler_type) == (8, "inverse_sqrt")
    assert both.training.max_tokens == recipe.training.max_tokens == 120 and both.training.seed == 7
    assert both.model == recipe.model and both.data.train_source == recipe.data.train_source
    # These belong to the final run only.
    assert both.training.start_from is None and both.evaluation.mbr is None
    assert both.data.text == ["own", "reversed"] and not both.peft.is_used
    assert both.training.output_dir.endswith("out/stages/both")


def test_start_from_on_the_command_line_keeps_the_architecture_of_stages(staged, saved_model):
    recipe = staged()
    assert recipe.model["d_model"] == 32
    of_stage = staged("--start_from=mean")
    assert of_stage.model == of_stage.stages["both"].arguments.model == recipe.model
    outside = staged(f"--start_from={saved_model}", "--dropout=0.2")
    assert outside.stages["both"].arguments.model == {**recipe.model, "dropout": 0.2}
    assert outside.model == {"dropout": 0.2}
    preset = staged("--preset=big", f"--start_from={saved_model}").stages["both"].arguments.model
    assert (preset["d_model"], preset["encoder_ffn_dim"]) == (1024, 4096)


def test_stage_with_a_different_schedule_does_not_inherit_the_learning_rate(staged):
    both = {"train": {"data": {"text": ["own", "reversed"]}, "training": {"lr_scheduler_type": "paper"}}}
    assert staged(both=both).stages["both"].arguments.training.learning_rate == 1.0


def test_options_reach_stages_by_full_and_by_short_names(staged):
    options = (
        "--stages.both.training.max_steps=3", "--both.warmup_steps", "1", "--stages.forward.translate.num_beams=3",
        "--forward.seed=9", "--backward", "both", "--mean.models=both,both", "--max_steps=5",
    )  # fmt: skip
    recipe = staged(*options)
    stages = {name: stage.arguments for name, stage in recipe.stages.items()}
    assert (stages["both"].training.max_steps, stages["both"].training.warmup_steps) == (3, 1)
    assert recipe.training.max_steps == 5
    assert (stages["forward"].num_beams, stages["forward"].seed) == (3, 9)
    assert stages["backward"].models == ["both"] and stages["mean"].models == ["both", "both"]
    assert recipe.stages["both"].given["training"]["max_steps"] == 3


def test_option_for_a_decoding_method_replaces_the_one_in_the_file():
    teacher = load_recipe("distill", ["--teacher=a/b", "--teacher.mbr=chrf"]).stages["teacher"].arguments
    assert (teacher.models, teacher.mbr, teacher.num_beams) == (["a/b"], "chrf", None)
    assert load_recipe("distill", ["--teacher.mbr=null"]).stages["teacher"].arguments.num_beams == 5


def test_given_stage_omits_values_replaced_by_an_option(staged):
    training = {"lr_scheduler_type": "inverse_sqrt", "learning_rate": 0.005}
    both = {"train": {"data": {"text": ["own", "reversed"]}, "training": training}}
    stage = staged("--both.lr_scheduler_type=paper", both=both).stages["both"]
    assert stage.given["training"] == {"lr_scheduler_type": "paper"}
    again = staged(both={"train": stage.given}).stages["both"].arguments
    assert again.training.learning_rate == stage.arguments.training.learning_rate == 1.0
    kept = staged("--both.lr_scheduler_type=linear", both=both).stages["both"]
    assert kept.given["training"] == {"lr_scheduler_type": "linear", "learning_rate": 0.005}


def test_stages_run_after_those_that_they_depend_on(staged):
    assert [stage.name for stage in in_order(staged().stages)] == ["both", "forward", "mean", "backward"]


def test_cycle_of_stages_is_reported(staged):
    first = {"train": {"training": {"start_from": "second"}}}
    second = {"average": {"models": ["first"]}}
    shown = errors_of(staged, first=first, second=second)
    assert shown == ("stages: first needs second needs first, which is a cycle. Remove one of these references")
    assert cycle(staged().stages) == []


def test_cycle_through_the_input_of_a_stage_is_reported(staged):
    forward = {"translate": {"model": "both", "input": "backward"}}
    backward = {"translate": {"model": "both", "side": "target", "input": ["own", "forward"]}}
    shown = errors_of(staged, forward=forward, backward=backward)
    assert "stages: forward needs backward needs forward, which is a cycle" in shown


def test_all_errors_in_stages_are_reported_together(staged):
    changes = {
        "forward": {"translate": {"model": "bot", "n_bets": 2, "num_beams": 0}},
        "backward": {
            "translate": {
                "side": "target",
                "mbr": "chrf",
                "sample": 1,
                "input": ["forwards", "both", "pairs.tsv", "pairs.tsv"],
            }
        },
        "mean": {"average": {"models": ["forward"]}, "train": {}},
        "twice": {"average": {"models": ["both"], "last": 2, "best": 2}},
        "max_steps": {"train": {}},
        "a-b": {"train": {}},
        "unknown": {"trian": {}},
        "named": {"train": {"trainin": {}, "training": {"max_step": 3, "output_dir": "x", "start_from": "forward"}}},
    }
    shown = errors_of(
        staged, "--data.text={own: 0, forwrd: 1, both: 1}", "--both.max_step=3", "--stages.bth.seed=1",
        "--forward.beam=2", **changes,
    )  # fmt: skip
    for error in (
        "--both.max_step: unknown key; did you mean 'max_steps'?",
        "--stages.bth.seed: unknown stage 'bth'; did you mean 'both'?",
        "--forward.beam: a stage that translates has no key 'beam'; here it is 'num_beams'",
        "unknown key 'translate.n_bets'; did you mean 'n_best'?",
        "stages.forward.translate.num_beams must be at least 1, got 0",
        "stages.forward.translate.model: 'bot' is neither a stage nor a folder; did you mean 'both'?",
        "stages.backward.translate.model is missing",
        "stages.backward.translate.input: 'forwards' is neither a stage nor a file; did you mean 'forward'?",
        "stages.backward.translate.input: stage 'both' makes a model, not text",
        "stages.backward.translate.input: pairs.tsv contains both sides of pairs. Specify a file with only the",
        "stages.backward.translate.input: 'pairs.tsv' is listed twice. Remove one",
        "stages.backward.translate.sample and translate.mbr",
        "stages.mean must be one of train, translate, average, with its keys",
        "stages.twice.average.last=2 and average.best=2 are both given; choose one",
        "stages: 'max_steps' is a reserved word of recipes and cannot be the name of a stage",
        "stages: 'a-b' cannot be the name of a stage",
        "stages.unknown must be one of train, translate, average",
        "stages.named: unknown section 'trainin'; did you mean 'training'?",
        "stages.named: unknown key 'training.max_step'; did you mean 'max_steps'?",
        "stages.named.training.output_dir: the folder of a stage is inside the recipe's",
        "stages.named.training.start_from: stage 'forward' translates and makes no model",
        "data.text: unknown text 'forwrd'; did you mean 'forward'?",
        "data.text: stage 'both' makes a model, not text; texts are own, reversed, forward, backward",
        "data.text: the weight of own must be a number above 0, got 0",
    ):
        assert error in shown, f"{error}\n\n{shown}"


def test_model_of_one_direction_does_not_translate_the_other(staged):
    backward = {"translate": {"model": "both", "side": "target"}}
    shown = errors_of(staged, both={"train": {}}, mean=None, backward=backward)
    assert shown == (
        "stages.backward.translate.side=target: stage 'both' learns only the opposite direction. Train it in both, "
        "with data.text: [own, reversed], or in the required one, with data.reversed: true"
    )
    reverse = {"train": {"data": {"reversed": True}}}
    assert staged(back=reverse, backward={"translate": {"model": "back", "side": "target"}})


def test_mean_of_more_checkpoints_than_a_stage_keeps_or_saves_is_rejected(staged):
    changes = {"best": {"average": {"models": ["both"], "best": 2}}}
    assert errors_of(staged, "--mean.last=6", "--both.max_steps=12", **changes) == (
        "stages.mean.average.last=6: stage 'both' keeps only 5 (training.save_total_limit); raise that\n"
        "stages.best.average.best=2: stage 'both' keeps only 1 (training.keep_best); raise that"
    )
    assert errors_of(staged, "--mean.last=5") == (
        "stages.mean.average.last=5: stage 'both' saves only 4, with training.max_steps=8 and training.save_steps=2; "
        "lower the latter"
    )
    assert staged("--mean.last=4")
    # The last step is saved in any case, but not validated.
    assert staged("--mean.last=3", "--both.save_steps=3")
    assert errors_of(staged, "--both.keep_best=2", "--both.eval_steps=5", **changes) == (
        "stages.best.average.best=2: stage 'both' saves only 1, with training.max_steps=8 and training.eval_steps=5; "
        "lower the latter"
    )
    assert staged("--both.keep_best=2", "--both.eval_steps=4", **changes)


def test_invalid_text_mix_of_a_recipe_without_stages_is_rejected(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {dataset: built-in}\ntraining: {output_dir: o}\n")
    for text, error in (
        ("[own, own]", "lists a text twice"), ("[reversed]", "reversed alone is the opposite direction"),
        ("[]", "must name at least one text"), ("{own: true}", "the weight of own must be a number above 0"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=error):
            load_recipe(path, [f"--data.text={text}"])
    assert load_recipe(path, ["--data.text=[own, reversed]"]).data.text == ["own", "reversed"]


def test_shared_recipe_keeps_names_of_stages_and_hub_models_but_no_folders(staged, tmp_path):
    models = ["both", "Helsinki-NLP/opus-mt-en-de"]
    back = {"translate": {"model": models, "side": "target", "input": "/texts/mono.en"}}
    start = tmp_path / "start"
    start.mkdir()
    pairs = {"source": "/texts/more.de", "target": "/texts/more.en"}
    data = {"tests": {"more": pairs}, "train": [pairs]}
    other = {"train": {"data": data, "training": {"start_from": str(start), "cpu_threads": 2}}}
    shared = shared_recipe(staged(backward=back, other=other).to_dict())["stages"]
    assert shared["backward"]["translate"]["model"] == models
    assert shared["backward"]["translate"]["input"] == "mono.en"
    names = {"source": "more.de", "target": "more.en"}
    data = {"tests": {"more": names}, "train": [names]}
    assert shared["other"] == {"train": {"data": data, "training": {"start_from": "start"}}}


def test_shared_recipe_of_a_last_run_from_a_given_model_keeps_the_architecture_of_stages(
    staged, saved_model, tmp_path
):
    recipe = staged(f"--start_from={saved_model}")
    path = tmp_path / "shared.yaml"
    path.write_text(yaml.safe_dump(recipe.to_dict()))
    assert recipe.model == {}
    assert load_recipe(path).stages["both"].arguments.model == recipe.stages["both"].arguments.model
    assert load_recipe(path).stages["both"].arguments.model["d_model"] == 32


def test_shared_recipe_with_a_preset_keeps_what_overrides_it(staged, tmp_path):
    recipe = staged("--preset=base", "--encoder_layers=3")
    path = tmp_path / "shared.yaml"
    path.write_text(yaml.safe_dump(recipe.to_dict()))
    assert load_recipe(path).stages["both"].arguments.model == recipe.stages["both"].arguments.model
    assert recipe.stages["both"].arguments.model["encoder_layers"] == 3
