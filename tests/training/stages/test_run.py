"""Recipes of stages run to the end: what each stage makes, that none is repeated, and what is replaced."""

import gzip
import itertools
import json
import shutil
from pathlib import Path

import pytest
import yaml
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError, TrainingError
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.replay.recorded_run import read_run
from hf_vaswani.training.reporting.card import rewrite_card
from hf_vaswani.training.setup.resume import stored_differences
from hf_vaswani.training.stages import run as run_module
from hf_vaswani.training.stages.plan import make_plan
from hf_vaswani.training.stages.record import Record
from hf_vaswani.training.stages.translate_text import TRANSLATIONS_FILE
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer
from hf_vaswani.translation.lines import LineTranslator

from ..helpers import files_in, run_training, same_weights
from .conftest import staged_in

STAGES = ["both", "forward", "mean", "backward"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished recipe of stages: the function that loads it, its folder and its report."""
    folder = tmp_path_factory.mktemp("finished")
    staged = staged_in(folder)
    return staged, folder / "out", train(staged())


def pairs_in(folder) -> list[dict]:
    with gzip.open(folder / "pairs.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def lines_of(path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_forward_stage_pairs_sources_with_translations(finished):
    _, out, _ = finished
    sources = lines_of(out.parent / "train.source")
    translator = pipeline("translation", model=str(out / "stages" / "both"))
    expected = []
    for source, found in zip(sources, translator(sources, num_beams=2, n_best=2, max_new_tokens=12)):
        texts = dict.fromkeys(hypothesis["translation_text"] for hypothesis in found)
        expected += [(source, text) for text in texts if text]
    assert [(pair["source"], pair["target"]) for pair in pairs_in(out / "stages" / "forward")] == expected


def test_backward_stage_pairs_samples_of_an_ensemble_with_targets(finished, tmp_path):
    _, out, _ = finished
    targets = out.parent / "train.target"
    models = (str(out / "stages" / name) for name in ("both", "mean"))
    translate = ("--input", str(targets), "--output", str(tmp_path / "sampled"), "--sample", "1")
    assert main(["translate", next(models), "--ensemble", next(models), "--max_new_tokens", "12", *translate]) == 0
    made = [(pair["source"], pair["target"]) for pair in pairs_in(out / "stages" / "backward")]
    sampled = set(zip(lines_of(tmp_path / "sampled"), lines_of(targets)))
    # The stage forms batches of its own, which may round a few draws differently.
    assert sum(pair in sampled for pair in made) >= 0.9 * len(made) > 0


def test_average_stage_is_the_mean_of_the_last_checkpoints(finished):
    _, out, _ = finished
    model = AutoModelForSeq2SeqLM.from_pretrained(out / "stages" / "mean")
    from safetensors.torch import load_file

    last = [load_file(out / "stages" / "both" / "checkpoints" / f"update-0000000{n}" / "model.safetensors")
            for n in (6, 8)]  # fmt: skip
    name = "model.encoder.layers.0.fc1.weight"
    assert (model.state_dict()[name] - (last[0][name] + last[1][name]) / 2).abs().max() < 1e-7


def test_model_of_both_directions_has_no_languages_but_the_final_model_does(finished):
    _, out, _ = finished
    both, last = (AutoModelForSeq2SeqLM.from_pretrained(path).config for path in (out / "stages" / "both", out))
    assert (both.source_language, both.target_language) == (None, None)
    assert (last.source_language, last.target_language) == ("de", "en")
    tokenizers = [AutoTokenizer.from_pretrained(path).get_vocab() for path in (out / "stages" / "both", out)]
    assert tokenizers[0] == tokenizers[1]


def test_report_has_all_stages_with_their_times_and_the_teacher(finished):
    _, out, report = finished
    stored = json.loads((out / "results.json").read_text())
    assert [stage["name"] for stage in stored["stages"]] == STAGES
    both, forward, mean, backward = stored["stages"]
    assert (both["kind"], both["text"], both["steps"]) == ("train", "own, reversed", 8)
    assert both["validation_loss"] > 0 and both["tests"]["test"]["bleu"] >= 0
    assert forward["lines"] == 60 and forward["pairs"] == len(pairs_in(out / "stages" / "forward"))
    assert forward["pairs"] + sum(forward["left_out"].values()) == 120
    assert (mean["models"], backward["models"], backward["side"]) == (["both"], ["both", "mean"], "target")
    seconds = [stage["seconds"] for stage in stored["stages"]]
    assert min(seconds) > 0 and stored["total_seconds"] == pytest.approx(sum(seconds) + stored["seconds"])
    teacher = stored["teacher"]
    assert (teacher["models"], teacher["sentences"], teacher["test"]) == (["both"], 8, "test")
    assert teacher["teacher"]["sentences_per_second"] > 0 and teacher["student"]["search"] == "greedy"
    assert 0 <= teacher["agreement"] <= 100
    assert report.stages[0].name == "both"


def test_report_has_the_size_of_the_student_in_int8(finished, tmp_path):
    pytest.importorskip("ctranslate2")
    _, out, _ = finished
    size = json.loads((out / "results.json").read_text())["teacher"]["int8_bytes"]
    assert main(["export", str(out), str(tmp_path / "int8"), "--to", "ctranslate2", "--quantization", "int8"]) == 0
    assert size == (tmp_path / "int8" / "model.bin").stat().st_size


def test_card_shows_the_stages_and_a_loadable_recipe(finished, tmp_path):
    staged, out, _ = finished
    card = (out / "README.md").read_text()
    assert "trained in 5 stages" in card and "| both | trains on own, reversed | 8 steps" in card
    assert "made by stage forward, weight 1; made by stage backward, weight 1" in card
    assert "| teacher: both |" in card and str(out) not in card
    printed = yaml.safe_load(card.partition("```yaml\n")[2].partition("```")[0])
    assert printed["training"]["start_from"] == "both"
    assert list(printed["stages"]) == ["forward", "backward", "mean", "both"]
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(printed))
    again, first = load_recipe(path, [f"--output_dir={tmp_path}"]), staged()
    assert {name: stage.given for name, stage in again.stages.items()} == {
        name: stage.given for name, stage in first.stages.items()
    }
    assert again.stages["both"].arguments.training.max_steps == 8
    rewrite_card(out)
    assert (out / "README.md").read_text() == card


def test_finished_stages_are_not_run_again(finished, monkeypatch, capsys):
    staged, out, _ = finished
    for name in ("make_pairs", "average"):
        monkeypatch.setattr(run_module, name, lambda *_, **__: pytest.fail("a finished stage was run"))
    before = {path: path.stat().st_mtime_ns for path in files_in(out / "stages")}
    train(staged("--logging_steps=3", "--both.eval_sentences=3"))
    assert {path: path.stat().st_mtime_ns for path in files_in(out / "stages")} == before
    shown = capsys.readouterr().out
    assert all(f"stage {name} ({number} of 4) is finished" in shown for number, name in enumerate(STAGES, start=1))


def test_changed_settings_of_finished_stages_are_rejected_with_the_differences(finished):
    staged, out, _ = finished
    before = files_in(out)
    with pytest.raises(InputError) as error:
        train(staged("--forward.n_best=1", "--both.learning_rate=0.01"))
    first, second, *others = str(error.value).splitlines()
    assert "stages.both" in first and "training.learning_rate was 0.003 and is now 0.01" in first
    assert "--overwrite true to redo what has changed and everything made from it" in first
    assert "translate.n_best was 2 and is now 1" in second and "stage both has changed" in second
    assert (
        len(others) == 3
        and "contains a run that used another model or text from both, forward, backward" in others[-1]
    )
    assert files_in(out) == before


def test_changed_text_is_detected_by_all_stages_that_read_it(finished):
    staged, out, _ = finished
    source = out.parent / "train.source"
    text = source.read_text()
    source.write_text(text.replace("a", "b", 1))
    with pytest.raises(InputError) as error:
        train(staged())
    source.write_text(text)
    for name in ("both", "forward", "backward"):
        assert f"{out}/stages/{name} contains another stage (the training text has changed" in str(error.value)


def test_overwrite_redoes_only_changed_stages_and_what_depends_on_them(staged, tmp_path):
    train(staged())
    own = tmp_path / "out" / "stages" / "backward" / "notes.txt"
    own.write_text("mine")
    kept = {path: path.stat().st_mtime_ns for name in ("both", "forward", "mean")
            for path in files_in(tmp_path / "out" / "stages" / name)}  # fmt: skip
    before = pairs_in(tmp_path / "out" / "stages" / "backward")
    train(staged("--backward.keep_share=0.5", "--overwrite=true"))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    after = pairs_in(tmp_path / "out" / "stages" / "backward")
    assert len(after) == round(len(before) / 2) and all(pair in before for pair in after)
    assert min(pair["score"] for pair in after) >= sorted(pair["score"] for pair in before)[len(before) - len(after)]
    assert own.read_text() == "mine"
    assert json.loads((tmp_path / "out" / "results.json").read_text())["stages"][3]["pairs"] == len(after)


def test_changed_held_out_text_or_languages_require_new_translations(finished):
    staged, out, _ = finished
    recipe = staged()
    of_own = {"test_share": 0.1, "test_source": None, "test_target": None}
    recipe.data = recipe.data.model_copy(update=of_own)
    with pytest.raises(InputError) as error:
        train(recipe)
    for name in ("forward", "backward"):
        assert f"{out}/stages/{name} contains another stage (what is held out has changed)" in str(error.value)
    recipe = staged()
    recipe.data = recipe.data.model_copy(update={"source_language": "fr"})
    with pytest.raises(InputError) as error:
        train(recipe)
    assert f"{out}/stages/forward contains another stage (the pair of languages has changed)" in str(error.value)


class Killed(BaseException):
    """Stands in for a kill."""


def test_run_and_mean_are_replaced_beside_user_files_even_after_a_kill(staged, tmp_path, monkeypatch):
    def load(*options):
        stages = {"both": {"train": {"training": {"max_steps": 4}}}, "forward": None, "backward": None}
        return staged("--data.text=[own]", "--max_steps=4", *options, **stages)

    train(load())
    stages = tmp_path / "out" / "stages"
    for name in ("both", "mean"):
        (stages / name / "notes.txt").write_text("mine")
    write, calls = Record.write, iter(range(100))

    def killing(self, path):
        write(self, path)
        if next(calls) in (0, 2):  # when the run has begun, and when averaging has
            raise Killed

    monkeypatch.setattr(Record, "write", killing)
    for _ in range(2):
        with pytest.raises(Killed):
            train(load("--both.learning_rate=0.01", "--overwrite=true"))
    train(load("--both.learning_rate=0.01", "--overwrite=true"))
    for name in ("both", "mean"):
        assert (stages / name / "notes.txt").read_text() == "mine"
    (tmp_path / "out").rename(tmp_path / "replaced")
    train(load("--both.learning_rate=0.01"))
    for name in ("both", "mean"):
        weights = Path("stages") / name / "model.safetensors"
        assert (tmp_path / "replaced" / weights).read_bytes() == (tmp_path / "out" / weights).read_bytes()


def test_stage_of_a_different_kind_is_rejected_and_nothing_is_deleted(staged, tmp_path):
    stages = tmp_path / "out" / "stages"
    (stages / "both").mkdir(parents=True)
    (stages / "both" / "pairs.jsonl.gz").write_bytes(b"")
    Record("translate", {}, {}).write(stages / "both.json")
    before = files_in(tmp_path / "out")
    with pytest.raises(InputError, match="stages.both: .* of kind translate, but this one is of kind train"):
        train(staged("--overwrite=true"))
    assert files_in(tmp_path / "out") == before


def test_folder_without_a_stage_is_rejected_and_left_unchanged(staged, tmp_path):
    own = tmp_path / "out" / "stages" / "both" / "notes.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(InputError, match="stages.both: .* is not empty and contains no stage. Move it elsewhere."):
        train(staged("--overwrite=true"))
    assert list(files_in(tmp_path / "out")) == [own]


def test_both_loops_produce_the_same_model(finished):
    staged, out, _ = finished
    train_with_trainer(staged(output="by_trainer"))
    assert same_weights(out, out.parent / "by_trainer")
    name = "stages/backward/pairs.jsonl.gz"
    assert (out / name).read_bytes() == (out.parent / "by_trainer" / name).read_bytes()


def test_stage_translates_the_pairs_of_another_and_changes_with_it(finished, tmp_path):
    staged, out, _ = finished
    folder = tmp_path / "out"
    shutil.copytree(out, folder)
    again = {"translate": {"model": "both", "input": ["own", "backward"], "max_new_tokens": 12, "sample": 1}}
    report = train(staged("--overwrite=true", output=folder, forward=again))
    sampled = [pair["source"] for pair in pairs_in(folder / "stages" / "backward")]
    texts = [text for text, _ in itertools.groupby(sampled)]
    made = pairs_in(folder / "stages" / "forward")
    found = next(stage for stage in report.stages if stage.name == "forward")
    own = lines_of(out.parent / "train.source")
    assert found.lines == len(own) + len(texts)
    assert {pair["source"] for pair in made} & set(texts) - set(own)
    assert found.text == "the training text, backward"
    before = (folder / "stages" / "forward.json").read_text()
    backward = {"translate": {"model": "both", "side": "target", "max_new_tokens": 12, "sample": 1, "seed": 3}}
    with pytest.raises(InputError, match=r"stages.forward: .*\(stage backward has changed"):
        train(staged(output=folder, forward=again, backward=backward))
    train(staged("--overwrite=true", output=folder, forward=again, backward=backward))
    assert (folder / "stages" / "forward.json").read_text() != before


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a b\n" * 300 + b"caf\xe9\n", "line 301"),
        ("a b\n".encode("utf-16"), "UTF-16"),
        (b"\n \n\t\n", "all of its lines are blank"),
    ],
    ids=["a byte that is not UTF-8", "UTF-16", "blank lines"],
)
def test_unusable_line_of_an_input_is_found_before_any_stage_runs(staged, tmp_path, content, why):
    file = tmp_path / "mono.txt"
    file.write_bytes(content)
    forward = {"translate": {"model": "both", "input": str(file)}}
    with pytest.raises(InputError, match=f"stages.forward.translate.input: .*{why}"):
        train(staged(forward=forward))
    assert not (tmp_path / "out").exists()


def test_settings_and_inputs_that_mean_the_same_are_the_same_stage(finished, tmp_path):
    staged, out, _ = finished
    before = (out / "stages" / "forward.json").read_text()
    forward = {"translate": {"model": ["both"], "input": "own", "n_best": 2, "max_new_tokens": 12}}
    assert train(staged(forward=forward)).steps == 6
    assert (out / "stages" / "forward.json").read_text() == before
    # An earlier version recorded one model as such, and no input as none.
    record = json.loads(before)
    record["settings"].update(model="both", input=None)
    (out / "stages" / "forward.json").write_text(json.dumps(record))
    assert train(staged(forward=forward)).steps == 6


def test_record_with_models_of_a_wrong_type_is_one_error(finished):
    staged, out, _ = finished
    path = out / "stages" / "forward.json"
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "settings": {"model": 5}}))
    try:
        with pytest.raises(InputError, match="stages.forward: .*translate.model was 5 and is now"):
            train(staged())
    finally:
        path.write_text(before)


def test_finished_stage_needs_its_input_no_more(staged, tmp_path):
    file = tmp_path / "mono.txt"
    file.write_text("a b\nc d e\nf\n")
    backward = {"translate": {"model": "both", "side": "target", "input": str(file), "max_new_tokens": 8, "sample": 1}}
    train(staged(backward=backward))
    file.unlink()
    assert train(staged(backward=backward)).steps == 6


def test_pairs_are_chosen_anew_without_translating_again(staged, tmp_path, monkeypatch):
    translate = {"model": "both", "max_new_tokens": 12, "sample": 1}
    with pytest.raises(TrainingError, match="no pairs are left .* Lower translate.min_score"):
        train(staged(forward={"translate": {**translate, "min_score": 0}}))
    assert (tmp_path / "out" / "stages" / "forward" / TRANSLATIONS_FILE).exists()
    translated, call = [], LineTranslator.__call__
    sources = set(lines_of(tmp_path / "train.source"))

    def recorded(self, given):
        translated.extend(line.text for line in given)
        return call(self, given)

    monkeypatch.setattr(LineTranslator, "__call__", recorded)
    report = train(staged(forward={"translate": {**translate, "min_score": -100}}))
    lines = sum(stage.lines for stage in report.stages if stage.name == "forward")
    assert lines == 60 and pairs_in(tmp_path / "out" / "stages" / "forward")
    # The other stage translates targets, of which a few are sources, too.
    assert len(translated) > 0 and len(sources.intersection(translated)) < 20


def test_moved_output_folder_is_resumed(finished, tmp_path):
    staged, out, _ = finished
    shutil.copytree(out, tmp_path / "moved")
    last = make_plan(staged(output=tmp_path / "moved")).last
    assert stored_differences(last) == []
    other = last.model_copy(update={"training": last.training.model_copy(update={"start_from": "elsewhere"})})
    assert [line.partition(" was")[0] for line in stored_differences(other)] == ["training.start_from"]


def test_all_errors_are_reported_before_any_stage_runs(staged, tmp_path):
    forward = {"translate": {"model": str(tmp_path / "nowhere"), "input": str(tmp_path / "no.txt")}}
    mean = {"average": {"models": [str(tmp_path / "none")]}}
    options = ("--report_to=nobody", "--both.freeze=model.nothing", "--data.text=[own, forward]")
    recipe = staged(*options, forward=forward, mean=mean, backward=None)
    with pytest.raises(InputError) as error:
        train(recipe)
    for text in (
        "training.report_to: 'nobody' is unknown",
        "stages.both: training.freeze",
        f"stages.forward.translate.model: {tmp_path}/nowhere does not exist",
        f"stages.forward.translate.input: {tmp_path}/no.txt does not exist",
        f"stages.mean.average.models: {tmp_path}/none is neither a stage nor a folder",
    ):
        assert text in str(error.value), str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_two_processes_share_the_stages_and_report_errors_once(staged, tmp_path):
    output = run_training(staged, f"--output_dir={tmp_path / 'out'}", processes=2)
    assert output.count("stage forward is finished") == 1 and (tmp_path / "out" / "model.safetensors").exists()
    assert json.loads((tmp_path / "out" / "results.json").read_text())["processes"] == [2]
    assert len(pairs_in(tmp_path / "out" / "stages" / "forward")) >= 60
    with pytest.raises(AssertionError) as error:
        run_training(staged, f"--output_dir={tmp_path / 'out'}", "--forward.n_best=1", processes=2)
    assert str(error.value).count("translate.n_best was 2 and is now 1") == 1


def test_moved_run_with_stages_can_be_verified(finished, tmp_path, capsys):
    staged, out, _ = finished
    shutil.copytree(out, tmp_path / "moved")
    text = [option for option in staged.command[1:] if not option.startswith("--test")]
    out.rename(out.with_name("hidden"))
    try:
        assert main(["verify", str(tmp_path / "moved"), *text]) == 0, capsys.readouterr().err
    finally:
        out.with_name("hidden").rename(out)
    assert capsys.readouterr().out.splitlines()[-1] == "identical bit for bit"


def test_first_stage_can_be_verified_although_names_of_others_are_like_its_own(finished, tmp_path, capsys):
    staged, out, _ = finished
    card = (out / "README.md").read_text()
    # As a card names a model and a file that lie elsewhere: by their last name.
    card = card.replace("model: both", "model: [both, bot]\n      input: bth.de")
    (tmp_path / "README.md").write_text(card)
    text = [option for option in staged.command[1:] if not option.startswith("--test")]
    assert main(["verify", str(tmp_path / "README.md"), *text, "--steps", "2"]) == 0, capsys.readouterr().err


def test_first_stage_can_be_verified_from_the_card_and_text_alone(finished, tmp_path, capsys):
    staged, out, report = finished
    assert [stage.name for stage in report.stages if stage.trail] == ["both"]
    shutil.copy(out / "README.md", tmp_path / "README.md")
    text = [option for option in staged.command[1:] if not option.startswith("--test")]
    assert main(["verify", str(tmp_path / "README.md"), *text, "--steps", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"record: trail.json in {tmp_path / 'README.md'}", "Replaying stage both, steps 1 to 5"]
    assert lines[-2:] == ["steps 1 to 5: losses and weights are identical bit for bit", "identical bit for bit"]
    other = tmp_path / "other.source"
    other.write_text((out.parent / "train.source").read_text().replace("a", "b", 1))
    assert main(["verify", str(tmp_path / "README.md"), *text, f"--train_source={other}"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("different: training text")


def test_card_of_an_adapter_on_a_stage_names_its_first_stage(finished, tmp_path):
    _, out, _ = finished
    card = (out / "README.md").read_text()
    (tmp_path / "README.md").write_text(card.replace("\nstages:\n", "\npeft:\n  r: 2\nstages:\n", 1))
    run = read_run(str(tmp_path / "README.md"))
    assert run.stage == "both" and run.recipe["peft"]["r"] is None
