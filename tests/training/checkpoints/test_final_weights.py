"""Which weights become the final model: those with the best validation loss, or those that the recipe names."""

import json
import shutil

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.training.checkpoints.average import Candidate, candidates, lowest
from hf_vaswani.training.train import train

from ..helpers import records


def compared(results) -> dict[str, float]:
    return {entry.weights: entry.validation_loss for entry in results.final_weights.compared}


@pytest.fixture
def tune(recipe):
    """Fine-tunes a model trained for `base_steps`, with most checkpoints in the warm-up."""

    def run(base_steps, learning_rate):
        base = train(recipe(f"--max_steps={base_steps}", "--learning_rate=0.01", output="base")).folder
        return train(
            recipe(
                f"--start_from={base}",
                "--lr_scheduler_type=linear",
                f"--learning_rate={learning_rate}",
                "--max_steps=20",
                "--warmup_steps=15",
                "--save_steps=4",
                "--eval_steps=20",
                "--average=auto",
                "--average_last=5",
            )  # fmt: skip
        )

    return run


@pytest.mark.slow
def test_last_checkpoint_becomes_the_model_if_it_is_better(tune, capsys):
    results = tune(base_steps=2, learning_rate=0.01)
    losses = compared(results)
    assert set(losses) == {"the mean of the last 5 checkpoints", "the last checkpoint"}
    assert losses["the mean of the last 5 checkpoints"] > 1.02 * losses["the last checkpoint"]
    assert results.validation_loss == min(losses.values()) and results.averaged == [20]
    out = capsys.readouterr().out
    assert "The final model is the last checkpoint, chosen by validation loss: " in out
    stored = json.loads((results.folder / "results.json").read_text())
    assert stored["final_weights"] == results.final_weights.model_dump(by_alias=True)
    assert results.final_weights.average == "auto"
    assert f"chosen by validation loss: {results.validation_loss:.4f}, against" in (
        (results.folder / "README.md").read_text()
    )


def test_mean_becomes_the_model_if_it_is_better(tune):
    results = tune(base_steps=60, learning_rate=0.02)
    losses = compared(results)
    assert min(losses, key=losses.get) == results.final_weights.weights == "the mean of the last 5 checkpoints"
    assert results.averaged == [4, 8, 12, 16, 20]


def test_all_kept_weights_are_compared(recipe):
    results = train(recipe("--average=auto", "--average_last=2", "--keep_best=2", "--eval_steps=3"))
    assert set(compared(results)) == {
        "the mean of the last 2 checkpoints", "the mean of the best 2 weights in validation",
        "the last checkpoint",
    }  # fmt: skip
    assert results.validation_loss == min(compared(results).values())


@pytest.mark.parametrize(
    "options, averaged",
    [
        (["--average=last"], [8, 12]),
        (["--average_last=1"], [12]),
        (["--average_last=3"], [4, 8, 12]),
        (["--average=best", "--keep_best=2", "--eval_steps=3"], "best two"),
        (["--average=best", "--eval_steps=3"], "best one"),
    ],
)
def test_weights_named_by_the_recipe_become_the_model(recipe, options, averaged):
    results = train(recipe(*options))
    if isinstance(averaged, str):
        losses = {r["update"]: r["validation_loss"] for r in records(results.folder) if "validation_loss" in r}
        averaged = sorted(losses, key=losses.get)[: 2 if averaged == "best two" else 1]
    assert results.averaged == averaged
    assert len(compared(results)) == 1


def test_kind_of_average_is_implied_by_the_keys_given():
    from hf_vaswani.training.recipe.recipe import add_implied

    def kind(**training):
        values = {"training": training}
        add_implied(values)
        return values["training"].get("average")

    assert kind() is None
    assert kind(average_last=10) == "last"
    assert kind(average="auto", average_last=10) == "auto"


def test_option_for_the_final_weights_overrides_the_file(recipe):
    assert recipe().training.average == "last"  # the file has average_last
    assert recipe("--average=best").training.average == "best"


def test_contradictory_settings_of_final_weights_are_errors(recipe):
    with pytest.raises(InputError, match="average='best' needs kept weights, but training.keep_best=0"):
        recipe("--average=best", "--keep_best=0")


def test_nan_loss_is_never_the_lowest():
    assert lowest([float("nan"), 3.0, 2.0, 2.0]) == 2


def test_newest_intact_checkpoint_is_used_if_the_last_ones_are_damaged(recipe):
    given = recipe("--average_last=2")
    folder = train(given).folder
    for update in (12, 8):
        (folder / "checkpoints" / f"update-{update:08d}" / "model.safetensors").write_bytes(b"")
    messages = []
    [candidate] = candidates(given.training, folder, messages.append)
    assert candidate.steps == [4] and isinstance(candidate, Candidate)
    assert len(messages) == 2


@pytest.mark.slow
def test_weights_of_steps_after_the_last_one_are_not_used(recipe):
    options = ["--save_steps=2", "--eval_steps=1", "--keep_best=9", "--average=best"]
    folder = train(recipe("--max_steps=6", *options)).folder
    # As if the run had been killed before its last checkpoints were saved.
    for path in (folder / "checkpoints").glob("update-*"):
        if int(path.name.removeprefix("update-")) > 2:
            shutil.rmtree(path)
    results = train(recipe("--max_steps=4", *options))
    assert results.steps == 4 and sorted(results.averaged) == [1, 2, 3, 4]
