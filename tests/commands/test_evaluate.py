"""`hf-vaswani evaluate`: models, files and comparisons, and its error messages."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hf_vaswani.cli import main
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.evaluation.score import scores
from hf_vaswani.evaluation.seed_bootstrap import bootstrap
from hf_vaswani.translator.pairs import align_pairs
from hf_vaswani.translator.pipeline import translate
from hf_vaswani.translator.reranking import Reranker

from ..conftest import tiny_model

SOURCES = ["w1 w2 w3", "w4", "w5 w6"]
# Papineni et al. 2002, example 1; its BLEU is (17/18 · 10/17 · 7/16 · 4/15)^(1/4) = 0.5046.
HYPOTHESIS = "It is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]


@pytest.fixture
def evaluate(capsys):
    """Runs the command and returns what it prints."""

    def run(*arguments) -> str:
        capsys.readouterr()  # discard earlier output
        assert main(["evaluate", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def errors_of(capsys):
    """Runs the command, which must fail, and returns its error lines."""

    def run(*arguments) -> list[str]:
        capsys.readouterr()
        assert main(["evaluate", *map(str, arguments)]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert all(line.startswith("error: ") for line in lines)
        return lines

    return run


@pytest.fixture
def files(write_lines):
    """A reference and two systems, the second of which is better."""
    reference = [f"the house number {i} is green ." for i in range(20)]
    poor = [text.replace("is green", "was red") for text in reference]
    good = [text.replace("green", "grün") if i % 2 else text for i, text in enumerate(reference)]
    return write_lines("reference", reference), write_lines("poor", poor), write_lines("good", good)


def read(path) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def test_published_score_is_reproduced_with_several_references(evaluate, write_lines):
    references = [write_lines(f"reference{i}", [text]) for i, text in enumerate(REFERENCES)]
    hypothesis = write_lines("hypothesis", [HYPOTHESIS])
    lines = evaluate("--hypotheses", hypothesis, "--reference", *references).splitlines()
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF2", "TER"]
    assert lines[0].startswith("BLEU 50.46 (nrefs:3|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_json_matches_the_sacrebleu_command_to_the_last_digit(evaluate, files):
    reference, hypothesis, _ = files
    options = ["--tokenize", "intl", "--lowercase"]
    sacrebleu = [
        sys.executable,
        "-m",
        "sacrebleu",
        reference,
        "-i",
        hypothesis,
        "-m",
        "bleu",
        "chrf",
        "ter",
        "-w",
        "12",
    ]
    expected = json.loads(subprocess.run([*sacrebleu, *options], check=True, capture_output=True).stdout)
    printed = json.loads(evaluate("--hypotheses", hypothesis, "--reference", reference, "--format", "json", *options))
    [system] = printed["systems"]
    assert system["system"] == hypothesis
    assert [{**score, "score": round(score["score"], 12)} for score in system["scores"]] == [
        {key: score[key] for key in ("name", "score", "signature")} for score in expected
    ]


def test_model_is_evaluated_on_a_test_set(evaluate, saved_model, tokenizer, write_lines, tmp_path):
    translations = translate(tiny_model(), tokenizer, SOURCES, num_beams=2)
    references = [translations[0], "w1", "w2"]
    files = ["--source", write_lines("s", SOURCES), "--reference", write_lines("r", references)]
    expected = "".join(f"{score}\n" for score in scores(translations, references))
    output = tmp_path / "out"
    assert evaluate(saved_model, *files, "--num_beams", 2, "--output", output) == expected
    assert read(output) == translations
    assert evaluate(*files[:2], saved_model, *files[2:], "--num_beams", 2) == expected


def test_chosen_metrics_and_settings_are_used(evaluate, files):
    reference, hypothesis, _ = files
    options = ["--metrics", "ter", "chrf", "--chrf_word_order", "2"]
    lines = evaluate("--hypotheses", hypothesis, "--reference", reference, *options).splitlines()
    assert [line.split()[0] for line in lines] == ["TER", "chrF2++"]


def test_json_contains_sentence_scores(evaluate, files):
    reference, _, good = files
    options = ["--hypotheses", good, "--reference", reference, "--metrics", "ter", "--format", "json", "--sentences"]
    [system] = json.loads(evaluate(*options))["systems"]
    [sentences] = system["sentences"]
    # One of the seven words is wrong in every other sentence.
    assert sentences["scores"] == pytest.approx([0, 100 / 7] * 10)
    assert sentences["signature"] == system["scores"][0]["signature"]


def test_several_systems_are_compared_with_the_first(evaluate, files):
    reference, *systems = files
    options = ["--hypotheses", *systems, "--reference", reference, "--resamples", "40", "--seed", "3"]
    expected = bootstrap([read(path) for path in systems], read(reference), resamples=40, seed=3)
    printed = json.loads(evaluate(*options, "--format", "json"))
    assert [system["system"] for system in printed["systems"]] == systems
    for system, row in zip(printed["systems"], expected):
        assert [(s["score"], s["mean"], s["ci"]) for s in system["scores"]] == [(s.value, s.mean, s.ci) for s in row]
    assert all("p_value" not in score for score in printed["systems"][0]["scores"])
    assert [score["p_value"] for score in printed["systems"][1]["scores"]] == [score.p_value for score in expected[1]]
    table = evaluate(*options).splitlines()
    assert table[1].startswith(systems[0]) and "p=" not in table[1]
    assert table[2].startswith(systems[1]) and table[2].count("p=0.0244*") == 3  # 1 of 41
    assert f"against {systems[0]}" in table[5]
    assert "seed:3" in table[-1]


def test_models_and_files_are_compared(evaluate, saved_model, write_lines):
    source, reference = write_lines("s", SOURCES), write_lines("r", SOURCES)
    options = ["--source", source, "--reference", reference, "--hypotheses", reference, "--resamples", "5"]
    table = evaluate(saved_model, *options, "--metrics", "ter").splitlines()
    assert table[1].startswith(str(saved_model))
    assert table[2].startswith(reference) and " 0.00 ± 0.00" in table[2]


def test_confidence_interval_of_one_system_is_printed_on_request(evaluate, files):
    reference, _, good = files
    options = ["--hypotheses", good, "--reference", reference, "--metrics", "bleu"]
    assert "±" not in evaluate(*options)
    [[score]] = bootstrap([read(good)], read(reference), ["bleu"], resamples=30)
    assert evaluate(*options, "--confidence", "--resamples", "30") == f"{score}\n"
    assert f" ± {score.ci:.2f} (nrefs:1|bs:30|seed:12345|" in str(score)


def test_all_input_errors_are_reported_together(errors_of, tmp_path, write_lines):
    reference = write_lines("reference", ["a", "b", "c"])
    latin = tmp_path / "latin"
    latin.write_bytes(b"a\nb\nGr\xfc\xdfe\n")
    short, empty, existing = write_lines("short", ["a", "b"]), write_lines("empty", []), write_lines("taken", ["mine"])
    options = ["--source", reference, "--reference", reference, "--tokenize", "13b", "--sentences"]
    lines = errors_of(
        tmp_path / "no_model", *options, "--hypotheses", short, latin, empty, "absent", "--output", existing
    )  # fmt: skip
    expected = [
        "--sentences needs --format json",
        f"{existing} already exists. Choose another file, or replace it with --overwrite.",
        "'13b' is not a BLEU tokenizer",
        f"{latin}, line 3: byte 0xfc at column 3 is not valid UTF-8",
        f"{empty} is empty",
        "absent does not exist",
        f"{short} has 2 lines and {reference} has 3: line 3 of {reference} has no counterpart",
        "no_model does not exist",
    ]
    assert len(lines) == len(expected)
    for line, words in zip(lines, expected):
        assert words in line
    assert read(existing) == ["mine"]


def test_existing_output_is_replaced_with_overwrite(evaluate, saved_model, write_lines):
    source, existing = write_lines("s", SOURCES), write_lines("taken", ["old"])
    evaluate(saved_model, "--source", source, "--reference", source, "--output", existing, "--overwrite")
    assert len(read(existing)) == len(SOURCES)


def test_existing_output_is_kept_when_the_disk_is_full(errors_of, saved_model, write_lines, monkeypatch, tmp_path):
    source, reference, existing = write_lines("s", SOURCES), write_lines("r", SOURCES), write_lines("taken", ["old"])
    files = set(tmp_path.iterdir())

    def write_half(path, content):
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    options = ["--source", source, "--reference", reference, "--output", existing, "--overwrite"]
    assert "No space left on device. Free up disk space" in errors_of(saved_model, *options)[0]
    assert read(existing) == ["old"] and set(tmp_path.iterdir()) == files


def test_read_only_output_is_not_replaced(errors_of, saved_model, write_lines, monkeypatch):
    source, existing = write_lines("s", SOURCES), write_lines("taken", ["old"])
    access = os.access  # tests may run as root, who can write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "taken" and access(path, mode))
    options = ["--source", source, "--reference", source, "--output", existing, "--overwrite"]
    assert f"{existing} cannot be written: no permission" in errors_of(saved_model, *options)[0]
    assert read(existing) == ["old"]


def test_output_through_a_symlink_replaces_the_link_target(evaluate, saved_model, write_lines, tmp_path):
    source, existing = write_lines("s", SOURCES), write_lines("taken", ["old"])
    (tmp_path / "link").symlink_to(existing)
    evaluate(saved_model, "--source", source, "--reference", source, "--output", tmp_path / "link", "--overwrite")
    assert len(read(existing)) == len(SOURCES) and (tmp_path / "link").is_symlink()


def test_output_that_would_overwrite_an_input_is_rejected(errors_of, saved_model, write_lines):
    source, reference = write_lines("s", SOURCES), write_lines("r", SOURCES)
    options = ["--source", source, "--reference", reference, "--overwrite"]
    assert f"is the same file as {reference}." in errors_of(saved_model, *options, "--output", reference)[0]
    twice = ["--output", "./out", "out"]
    assert "--output out is the same file as ./out." in errors_of(saved_model, saved_model, *options, *twice)[0]
    assert "names 1 file for 2 models" in errors_of(saved_model, saved_model, *options, "--output", "out")[0]
    assert read(reference) == SOURCES


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_output_that_links_to_an_input_is_rejected(errors_of, saved_model, write_lines, tmp_path, link):
    source, reference = write_lines("source", ["w1"]), write_lines("reference", ["w2"])
    getattr(tmp_path / "out", link)(reference)
    options = ["--source", source, "--reference", reference, "--output", tmp_path / "out", "--overwrite"]
    assert f"{tmp_path / 'out'} is the same file as {reference}." in errors_of(saved_model, *options)[0]
    assert Path(reference).read_text() == "w2\n"


def test_unwritable_output_is_reported_before_translating(errors_of, saved_model, write_lines, tmp_path):
    source = write_lines("s", SOURCES)
    options = [saved_model, "--source", source, "--reference", source, "--output"]
    assert f"{tmp_path} is a folder" in errors_of(*options, tmp_path)[0]
    assert "null is not an ordinary file" in errors_of(*options, "/dev/null", "--overwrite")[0]
    assert "its folder does not exist" in errors_of(*options, tmp_path / "absent" / "out")[0]


def test_missing_and_contradictory_options_are_reported(errors_of, saved_model, files):
    reference, hypothesis, _ = files
    assert "Nothing to evaluate" in errors_of("--reference", reference)[0]
    assert "Specify its file with --source" in errors_of(saved_model, "--reference", reference)[0]
    given = {"source": [reference], "overwrite": [], "num_beams": [2], "batch_size": [3], "quantize": ["int8"]}
    options = [part for name, values in given.items() for part in (f"--{name}", *values)]
    lines = errors_of("--hypotheses", hypothesis, "--reference", reference, *options)
    assert [line.split(" is for models")[0].split()[-1] for line in lines] == [f"--{name}" for name in given]
    assert "is a file, not a model" in errors_of(hypothesis, "--reference", reference, "--source", reference)[0]


def test_full_disk_leaves_no_partial_output(errors_of, saved_model, write_lines, monkeypatch):
    source, output = write_lines("s", SOURCES), Path(write_lines("taken", ["old"])).with_name("out")
    reference = write_lines("r", SOURCES)

    def full(path, *_, **__):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    lines = errors_of(saved_model, "--source", source, "--reference", reference, "--output", output)
    assert lines == [
        f"error: {output} cannot be written: No space left on device. Free up disk space, then try again."
    ]
    assert not output.exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--resamples", "1000000"], "must be at most 100,000, got '1000000'"),
        (["--seed", str(2**32)], "must be a whole number from 0 to 4294967295, got '4294967296'"),
        (["--num_beams", "1001"], "must be at most 1,000, got '1001'"),
    ],
)
def test_out_of_range_numbers_exit_with_status_2(option, message, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["evaluate", "model", "--source", "a", "--reference", "b", *option])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_translations_are_reranked(evaluate, saved_model, backward, saved_backward, tokenizer, tmp_path, write_lines):
    files = ["--source", write_lines("source", SOURCES), "--reference", write_lines("reference", SOURCES)]
    options = ["--num_beams", 4, "--rerank_with", saved_backward, "--rerank_weight", 5]
    evaluate(saved_model, *files, *options, "--output", tmp_path / "out")
    reranker = Reranker(backward, tokenizer, 5.0)
    expected = translate(tiny_model(), tokenizer, SOURCES, num_beams=4, reranker=reranker)
    assert (tmp_path / "out").read_text().splitlines() == expected
    assert expected != translate(tiny_model(), tokenizer, SOURCES, num_beams=4)


def test_length_penalty_is_that_of_the_search(evaluate, saved_model, tokenizer, tmp_path, write_lines):
    files = ["--source", write_lines("source", SOURCES), "--reference", write_lines("reference", SOURCES)]
    found = {}
    for penalty in (-5.0, 5.0):
        evaluate(
            saved_model, *files, "--num_beams", 4, "--length_penalty", penalty, "--output", tmp_path / str(penalty)
        )
        found[penalty] = (tmp_path / str(penalty)).read_text().splitlines()
        assert found[penalty] == translate(tiny_model(), tokenizer, SOURCES, num_beams=4, length_penalty=penalty)
    assert found[-5.0] != found[5.0]


def test_reranking_is_for_models(errors_of, files):
    reference, poor, _ = files
    [error] = errors_of("--hypotheses", poor, "--reference", reference, "--rerank_with", "other")
    assert error.startswith("error: --rerank_with is for models, and none is given.")


def test_files_in_chinese_are_scored_by_characters(evaluate, write_lines, capsys):
    reference, hypothesis = write_lines("reference", ["我们明天去。"]), write_lines("hypothesis", ["我们今天去。"])
    files = ("--hypotheses", hypothesis, "--reference", reference, "--metrics", "bleu")
    assert "tok:zh" in evaluate(*files, "--target_language", "zh")
    assert main(["evaluate", *map(str, files)]) == 0
    output = capsys.readouterr()
    assert "tok:13a" in output.out and "in zh, for which it should be zh: set --tokenize zh" in output.err
    assert main(["evaluate", *map(str, files), "--target_language", "zh", "--tokenize", "char"]) == 0
    assert "tok:char" in capsys.readouterr().out


@pytest.fixture
def lowercasing_model(tmp_path) -> Path:
    """A folder with a model whose tokenizer lowercases."""
    pairs = [("w1 w2 w3", "one two three")] * 3
    tokenizer = train_tokenizer(pairs, TokenizerArguments(type="word", vocab_size=20, lowercase=True))
    tokenizer.save_pretrained(tmp_path / "lower")
    tiny_model(vocab_size=len(tokenizer)).save_pretrained(tmp_path / "lower")
    return tmp_path / "lower"


def test_model_without_capitals_is_scored_by_lowercased_text(lowercasing_model, write_lines, capsys):
    files = ["--source", write_lines("source", ["w1 w2"]), "--reference", write_lines("reference", ["ONE Two"])]
    command = ["evaluate", str(lowercasing_model), *map(str, files)]
    assert main(command) == 0
    output = capsys.readouterr()
    assert output.out.count("case:lc") == 3 and "writes no capitals" in output.err and "cannot write" not in output.err
    assert main([*command, "--no-lowercase"]) == 0
    output = capsys.readouterr()
    assert output.out.count("case:mixed") == 2 and "case:lc" in output.out  # TER's own
    assert "cannot write 1 of 1 references" in output.err and "capitals" in output.err


def test_table_is_scored_with_its_columns_and_a_warning(write_lines, capsys):
    table = write_lines("pairs.tsv", ["a\tb"])
    assert main(["evaluate", "--hypotheses", str(table), "--reference", str(write_lines("reference", ["b"]))]) == 0
    assert f"warning: {table} is read line by line, with all of its columns" in capsys.readouterr().err


def test_file_in_place_of_a_model_is_one_error(errors_of, write_lines):
    text = write_lines("text", ["a"])
    [error] = errors_of(text, "--reference", text)
    assert f"{text} is a file, not a model." in error


def test_a_file_that_is_also_the_reference_is_told(write_lines, capsys):
    reference = write_lines("reference", ["a b c d"])
    assert main(["evaluate", "--hypotheses", str(reference), "--reference", str(reference)]) == 0
    assert f"warning: {reference} is also a reference, so the scores are meaningless" in capsys.readouterr().err


def test_swapped_sides_and_scores_that_mean_nothing_are_told(saved_model, write_lines, capsys):
    german = write_lines("german", ["Der Hund ist in der Stadt und schläft."] * 20)
    english = write_lines("english", ["The dog is in the town, and it sleeps."] * 20)
    config = json.loads((saved_model / "config.json").read_text())
    config |= {"source_language": "de", "target_language": "en"}
    (saved_model / "config.json").write_text(json.dumps(config))
    hint, swapped = "hint: a BLEU below 1 says nothing", "Are source and target swapped?"
    assert main(["evaluate", str(saved_model), "--source", str(english), "--reference", str(german)]) == 0
    error = capsys.readouterr().err
    assert hint in error
    assert f"warning: {english} looks like en, not like de. {swapped}" in error
    assert f"warning: {german} looks like de, not like en. {swapped}" in error
    for file, is_told in ((english, True), (german, False)):
        assert main(["translate", str(saved_model), "--input", str(file), "--max_new_tokens", "3"]) == 0
        assert (swapped in capsys.readouterr().err) == is_told
    assert main(["evaluate", "--hypotheses", str(german), "--reference", str(english), "--metrics", "chrf"]) == 0
    assert hint not in capsys.readouterr().err


def test_json_records_in_place_of_translations_are_an_error(errors_of, write_lines):
    records = write_lines("records", ['{"source": "w1", "translations": [{"text": "w2"}]}'])
    reference = write_lines("reference", ["w2"])
    assert errors_of("--hypotheses", records, "--reference", reference) == [
        f"error: {records} has JSON records of hf-vaswani translate. Translate with --format text, one translation "
        "per line."
    ]


def test_terms_are_counted(evaluate, errors_of, write_lines):
    source = write_lines("source", ["ein Hund und ein Hund", "Hund", "Katze"])
    reference = write_lines("reference", ["a hound and a dog", "a hound", "a cat"])
    good, bad = write_lines("good", ["a hound", "a Hound", "cats"]), write_lines("bad", ["dogs", "hounds", "a cat"])
    glossary = write_lines("terms.tsv", ["Hund\thound", "Katze\tcat"])
    options = ["--hypotheses", good, bad, "--source", source, "--reference", reference, "--glossary", glossary]
    systems = json.loads(evaluate(*options, "--format", "json"))["systems"]
    unknown = {"placed": None, "share_placed": None}  # without a model
    assert [system["terms"] for system in systems] == [
        {"found": 2, "occurrences": 4, "found_in_reference": 2, "in_reference": 3, "share": 50.0,
         "share_in_reference": 100 * 2 / 3, **unknown},
        {"found": 1, "occurrences": 4, "found_in_reference": 1, "in_reference": 3, "share": 25.0,
         "share_in_reference": 100 / 3, **unknown},
    ]  # fmt: skip
    assert f"{good}: terms: 50.0% of 4; 66.7% of the 3 that a reference has" in evaluate(*options)
    errors = errors_of("--hypotheses", good, "--reference", reference, "--glossary", glossary)
    assert errors == ["error: --glossary needs --source, in which its terms occur."]


def test_markup_travels_with_translations_and_is_compared(evaluate, errors_of, saved_model, write_lines, tmp_path):
    source = write_lines("source", ["w1 <b>w2</b> w3", "w4 &amp; w5", "<i>w6</i>"])
    reference = write_lines("reference", ["<b>w1</b> w2 w3", "w4 &lt; <b/>w5", "<i>w6</i>"])
    options = [saved_model, "--source", source, "--reference", reference, "--markup", "--output", tmp_path / "out"]
    [system] = json.loads(evaluate(*options, "--format", "json"))["systems"]
    lines = (tmp_path / "out").read_text().splitlines()
    assert [re.sub("[^<>bi/]", "", line) for line in lines] == ["<b></b>", "", "<i></i>"]
    counts = {"lines": 3, "valid": 3, "same_tree": 2, "tagged": 3, "tagged_valid": 3, "tagged_same_tree": 2}
    assert system["markup"].items() >= counts.items()
    expected = "100.00% valid, 66.67% with the reference's tree, of 3 lines; 100.00% valid"
    text = evaluate("--hypotheses", reference, source, "--reference", reference, "--markup")
    assert f"{source}: markup: {expected}" in text and f"{reference}: markup: 100.00% valid, 100.00% with" in text
    broken = write_lines("broken", ["w1", "w2 <b>", "w3"])
    [error] = errors_of("--hypotheses", source, "--reference", broken, "--markup")
    assert f"{broken}: not well-formed inline XML in line 2." in error


def test_alignments_are_compared_with_gold_alignments(evaluate, errors_of, saved_model, tokenizer, write_lines):
    source, reference = write_lines("source", SOURCES), write_lines("reference", ["w7 w8", "w9", "w3 w4"])
    found = align_pairs(tiny_model(), tokenizer, list(zip(SOURCES, ["w7 w8", "w9", "w3 w4"])))
    gold = write_lines("gold", [" ".join(f"{s}-{t}" for s, t in links) for links in found])
    wrong = write_lines("wrong", ["", "0-0", ""])
    options = [saved_model, "--source", source, "--reference", reference, "--gold_alignments"]
    assert evaluate(*options, gold).splitlines()[-1] == "AER 0.0 (precision 100.0, recall 100.0)"
    # One link of five is right, and one of one is found: 1 - (1 + 1) / (5 + 1).
    [system] = json.loads(evaluate(*options, wrong, "--format", "json"))["systems"]
    assert system["alignment"] == {
        "aer": pytest.approx(100 * 2 / 3), "precision": 20.0, "recall": 100.0, "links": 5, "sure": 1, "possible": 0
    }  # fmt: skip
    assert errors_of("--hypotheses", reference, "--reference", reference, "--gold_alignments", gold) == [
        "error: --gold_alignments is for models, and none is given. Specify one, before all options, or omit "
        "--gold_alignments."
    ]
