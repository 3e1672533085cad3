"""`hf-vaswani translate --pairs`: what becomes pairs, what is recognized as finished, and what resumes."""

import gzip
import json
import os
import random
import signal
from pathlib import Path

import pytest
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.data.resumable_output import ResumableOutput
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.ledger import Provenance, read_provenance
from hf_vaswani.training.train import train
from hf_vaswani.translator.lines import LineTranslator

from ..families import family
from ..training.conftest import *  # noqa: F403  (the recipe of a small run)
from .test_translate_processes import finish, start

LINES = [" ".join(random.Random(i).choices([f"w{j}" for j in range(36)], k=4)) for i in range(12)]
SEARCH = ("--num_beams", "3", "--n_best", "2", "--max_new_tokens", "60")


@pytest.fixture
def text(write_lines) -> str:
    return str(write_lines("text.txt", [*LINES[:6], "", " ", *LINES[6:]]))


@pytest.fixture
def make(saved_model, text, tmp_path, capsys):
    """Runs the command; returns its status, its pairs, and what it wrote to standard error."""

    def run(*options, model=saved_model, input=text, output="pairs.jsonl.gz", search=SEARCH):
        capsys.readouterr()
        path = tmp_path / output
        command = ["translate", str(model), "--input", str(input), "--pairs", str(path), *search, *map(str, options)]
        status = main(command)
        return status, read_pairs(path) if status == 0 else [], capsys.readouterr().err

    return run


def read_pairs(path: Path) -> list[tuple[str, str]]:
    if not path.exists():
        return []
    source = TextSource(file=str(path), source_column="source", target_column="target")
    return list(iterate_pairs(source, (None, None)))


def translations(model, texts, **search) -> dict[str, list[str]]:
    found = pipeline("translation", model=str(model))(texts, num_beams=3, n_best=2, max_new_tokens=60, **search)
    return {text: [each["translation_text"] for each in hypotheses] for text, hypotheses in zip(texts, found)}


def test_pairs_are_the_models_translations_of_the_lines_on_either_side(make, saved_model, tmp_path):
    expected = translations(saved_model, LINES)
    for side in ("source", "target"):
        status, pairs, shown = make("--side", side, output=f"{side}.jsonl.zst")
        made = pairs if side == "source" else [(text, translation) for translation, text in pairs]
        assert status == 0 and f"{len(made)} pairs of 12 lines" in shown and made
        assert all(translation in expected[text] for text, translation in made)
        # What is missing was cut off, or is there already.
        assert {text for text, _ in made} <= set(LINES) and made == sorted(made, key=lambda pair: LINES.index(pair[0]))
    assert not list(tmp_path.glob(".*.jsonl*"))


def test_scores_are_written_with_the_pairs(make, saved_model, tmp_path):
    make()
    found = pipeline("translation", model=str(saved_model))(LINES, num_beams=3, n_best=2, max_new_tokens=60)
    expected = {(line, each["translation_text"]): each["score"] for line, best in zip(LINES, found) for each in best}
    with gzip.open(tmp_path / "pairs.jsonl.gz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            assert row["score"] == pytest.approx(expected[row["source"], row["target"]], abs=1e-5)


def test_pairs_of_a_file_are_translated_again_without_repetition(make, tmp_path):
    rows = [("w1 w2", "w3"), ("w1 w2", "w4"), ("w5", "w4")]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in rows))
    for side, texts in (("source", ["w1 w2", "w5"]), ("target", ["w3", "w4"])):
        status, pairs, shown = make("--side", side, "--sample", "1", "--max_new_tokens", "200", search=(),
                                    input=tmp_path / "own.jsonl", output=f"{side}.jsonl")  # fmt: skip
        assert status == 0 and "of 2 lines" in shown
        assert {pair[int(side == "target")] for pair in pairs} <= set(texts)


def test_finished_pairs_are_left_alone_and_differences_are_named(make, text, saved_model, tmp_path):
    assert make()[0] == 0
    before = (tmp_path / "pairs.jsonl.gz").stat().st_mtime_ns
    status, _, shown = make("--num_workers", "1")
    assert (status, shown) == (0, f"{tmp_path}/pairs.jsonl.gz is finished. Nothing to do.\n")
    for options, difference in (
        (["--keep_share", "0.5"], "keep_share was None and is now 0.5"),
        (["--num_beams", "4"], "num_beams was 3 and is now 4"),
        (["--ensemble", saved_model], "model was saved and is now saved, saved"),
    ):
        status, _, shown = make(*options)
        assert status == 2 and f"was made in another way: {difference}. Replace it with --overwrite" in shown
    Path(text).write_text("\n".join(LINES[1:]))
    status, _, shown = make()
    assert status == 2 and "was made in another way: input text.txt has changed. Replace" in shown
    assert (tmp_path / "pairs.jsonl.gz").stat().st_mtime_ns == before
    assert make("--overwrite")[0] == 0 and make()[2].endswith("Nothing to do.\n")


def test_file_of_unknown_origin_is_not_replaced(make, tmp_path):
    content = gzip.compress(b"{}")  # which holds the time
    (tmp_path / "pairs.jsonl.gz").write_bytes(content)
    status, _, shown = make()
    assert status == 2 and "it is unknown how it was made" in shown
    assert (tmp_path / "pairs.jsonl.gz").read_bytes() == content


def test_input_is_not_replaced(make, tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text('{"source": "w1", "target": "w2"}\n')
    status, _, shown = make("--overwrite", input=own, output="own.jsonl")
    assert status == 2 and f"--pairs {own} is the input" in shown
    assert own.read_text() == '{"source": "w1", "target": "w2"}\n'


@pytest.fixture
def many(write_lines) -> str:
    """300 lines, translated in windows of 128 and 172."""
    generator = random.Random(0)
    words = [f"w{j}" for j in range(36)]
    return str(write_lines("many.txt", [" ".join(generator.choices(words, k=3)) for _ in range(300)]))


def test_command_stopped_in_a_window_resumes_with_the_same_bytes(make, many, tmp_path, monkeypatch):
    sample = ("--sample", "1", "--n_best", "2", "--max_new_tokens", "20")
    assert make(*sample, input=many, search=(), output="whole.jsonl.gz")[0] == 0
    call, sizes = LineTranslator.__call__, []

    def stopping(self, given):
        sizes.extend([len(given)] if len(given) > 1 else [])  # a single line is a trial
        if len(sizes) == 2 and len(given) == 172:
            os.kill(os.getpid(), signal.SIGINT)
        return call(self, given)

    monkeypatch.setattr(LineTranslator, "__call__", stopping)
    status, pairs, shown = make(*sample, input=many, search=())
    assert status == 130 and pairs == []
    assert "Run the same command again to continue." in shown
    status, _, shown = make(*sample, "--seed", "5", input=many, search=())
    assert status == 2 and "was begun with other settings" in shown and "--overwrite" in shown
    assert make(*sample, input=many, search=())[0] == 0
    assert sizes == [128, 172, 172]
    assert (tmp_path / "pairs.jsonl.gz").read_bytes() == (tmp_path / "whole.jsonl.gz").read_bytes()


class Killed(BaseException):
    """Stands in for a kill."""


@pytest.mark.parametrize("is_before", [True, False])
def test_command_killed_as_it_writes_the_provenance_goes_on(make, tmp_path, monkeypatch, is_before):
    make(output="whole.jsonl.gz")
    write = Provenance.write

    def killing(self, product):
        if not is_before:
            write(self, product)
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(Provenance, "write", killing)
        with pytest.raises(Killed):
            make()
    with monkeypatch.context() as context:
        context.setattr(LineTranslator, "__call__", lambda *_: pytest.fail("translated again"))
        assert make()[0] == 0
    assert (tmp_path / "pairs.jsonl.gz").read_bytes() == (tmp_path / "whole.jsonl.gz").read_bytes()
    assert make()[2].endswith("Nothing to do.\n")


def test_pairs_are_chosen_again_without_translating_again(make, monkeypatch):
    status, pairs, shown = make("--min_score", "1000")
    assert (status, pairs) == (1, []) and "no pairs are left" in shown and "Lower --min_score" in shown
    monkeypatch.setattr(LineTranslator, "__call__", lambda *_: pytest.fail("translated again"))
    assert make()[0] == 0


def test_second_command_that_writes_the_same_pairs_is_an_error(make, tmp_path):
    output = ResumableOutput(tmp_path / ".pairs.jsonl.gz.translations.jsonl", resume=True)
    output.begin({}, iter([]))
    try:
        status, _, shown = make("--overwrite")
        assert status == 2 and "another" in shown
    finally:
        output.close()


def test_provenance_has_settings_and_inputs_without_paths(make, saved_model, tmp_path):
    make("--side", "target")
    content = (tmp_path / "pairs.jsonl.gz.provenance.json").read_text()
    assert str(tmp_path) not in content
    made = read_provenance(tmp_path / "pairs.jsonl.gz")
    assert made.settings == {"num_beams": 3, "n_best": 2, "max_new_tokens": 60, "side": "target"}
    assert [(source.role, source.name) for source in made.inputs] == [("model", "saved"), ("input", "text.txt")]
    assert made.results["lines"] == 12 and made.seconds > 0


def test_training_text_of_a_run_is_translated_without_what_is_held_out_and_as_its_files_have_it(
    recipe, make, tmp_path
):
    options = ("--validation_share=0.3", "--validation_source=null", "--validation_target=null", "--max_steps=1")
    folder = train(recipe(*options, "--data.reversed=true")).folder
    sources, targets = ((tmp_path / f"train.{side}").read_text().splitlines() for side in "xy")
    number = json.loads((folder / "results.json").read_text())["pairs"]["train"]
    assert 0 < number < len(sources)
    for side, texts in (("source", sources), ("target", targets)):
        status, pairs, shown = make("--sample", "1", "--side", side, model=folder, input=folder, search=(),
                                    output=f"{side}.jsonl")  # fmt: skip
        assert status == 0 and {pair[int(side == "target")] for pair in pairs} <= set(texts)
        lines = read_provenance(tmp_path / f"{side}.jsonl").results["lines"]
        assert number * 0.9 <= lines <= number  # equal lines that follow each other count once
    made = read_provenance(tmp_path / "source.jsonl")
    assert [source.name for source in made.inputs] == ["out", "the training text of out"]
    assert made.inputs[0].made.command == "train"


def test_pairs_can_be_trained_on_and_the_card_says_how_they_were_made(recipe, make, tmp_path):
    first = train(recipe("--max_steps=2", output="first")).folder
    sample = ("--sample", "1", "--max_new_tokens", "12")
    assert make(*sample, model=first, input=first, search=(), output="made.jsonl.gz")[0] == 0
    mixture = f"--text={{own: 2, '{tmp_path}/made.jsonl.gz': 1}}"
    options = ("--max_steps=2", mixture, f"--start_from={first}")
    folder = train(recipe(*options)).folder
    card = (folder / "README.md").read_text()
    assert "trained by 3 commands" in card and str(tmp_path) not in card
    assert "| made.jsonl.gz | first translates the training text of first, source side: samples at temp" in card
    results = json.loads((folder / "results.json").read_text())
    assert [source["name"] for source in results["inputs"]] == ["first", "made.jsonl.gz"]
    assert str(tmp_path) not in (folder / "provenance.json").read_text()
    train(recipe(*options))  # the same run
    make("--overwrite", *sample, "--seed", "3", model=first, input=first, search=(), output="made.jsonl.gz")
    with pytest.raises(Exception, match="data.train: the train text has changed"):
        train(recipe(*options))


@pytest.mark.parametrize(("name", "source", "target"), [("M2M100", "de", "en"), ("NLLB", "deu_Latn", "eng_Latn")])
def test_multilingual_model_translates_into_the_language_given(make, tmp_path, write_lines, name, source, target):
    model, tokenizer = family(name, tmp_path)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    text = write_lines("words.txt", [f"hund haus {letter}" for letter in "abcdefghijklmnop"])
    languages = ("--source_language", source, "--target_language", target, "--max_new_tokens", "30")
    _, _, shown = make(*languages, input=text, model=tmp_path / "model", search=("--sample", "1"))
    assert "of 16 lines" in shown  # a random model may have ended none of its translations
    if name == "NLLB":
        assert read_provenance(tmp_path / "pairs.jsonl.gz").settings["target_language"] == target


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--keep_share", "0.5"], "--keep_share needs --pairs FILE"),
        (["--side", "target"], "--side needs --pairs FILE"),
        (["--pairs", "p.jsonl", "--keep_closest", "bleu"], "--keep_closest chooses among several"),
        (["--pairs", "p.jsonl", "--output", "out"], "--output has no effect with --pairs"),
        (["--pairs", "p.jsonl", "--n_best", "3", "--num_beams", "2"], "--n_best 3 is more than --num_beams 2"),
    ],
)
def test_options_that_do_not_go_together_are_errors(saved_model, text, tmp_path, monkeypatch, capsys, options, error):
    monkeypatch.chdir(tmp_path)
    assert main(["translate", str(saved_model), "--input", text, *options]) == 2
    assert error in capsys.readouterr().err
    assert not list(tmp_path.glob("*.jsonl"))


def test_pairs_need_an_input(saved_model, tmp_path, capsys):
    assert main(["translate", str(saved_model), "--pairs", str(tmp_path / "p.jsonl")]) == 2
    assert "--pairs needs --input" in capsys.readouterr().err


def test_folder_without_a_run_is_an_error(make, tmp_path):
    status, _, shown = make(input=tmp_path)
    assert status == 2 and "is not the folder of a run" in shown


@pytest.mark.slow
def test_two_processes_write_the_same_pairs_as_one(make, many, saved_model, tmp_path):
    search = ("--num_beams", "1", "--max_new_tokens", "30")
    assert make(input=many, search=search)[0] == 0
    two = tmp_path / "two.jsonl.gz"
    status, log = finish(start(saved_model, "--input", many, "--pairs", two, *search))
    assert status == 0, log
    assert two.read_bytes() == (tmp_path / "pairs.jsonl.gz").read_bytes()
    status, log = finish(start(saved_model, "--input", many, "--pairs", two, *search))
    assert status == 0 and log.count("is finished. Nothing to do.") == 1
    status, log = finish(start(saved_model, "--input", many, "--pairs", two, "--num_beams", "2"))
    assert status != 0 and log.count("error: ") == 1 and "num_beams was 1 and is now 2" in log
