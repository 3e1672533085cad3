"""`hf-vaswani translate`: files and standard input, complete and interrupted runs, good and bad lines."""

import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vaswani.cli import main
from hf_vaswani.translator.lines import LineTranslator

from ..conftest import tiny_model

PROJECT = Path(__file__).parents[2]
SHORT = ["--max_new_tokens", "3", "--num_beams", "1"]


@pytest.fixture
def translate(saved_model, capsys):
    """Runs the command in this process, and returns its exit status, standard output, and standard error."""

    def run(*options) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["translate", str(saved_model), *map(str, options)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def error_of(translate):
    """Runs a command that must fail, and returns its error lines."""

    def run(*options) -> str:
        status, out, error = translate(*options)
        assert (status, out) == (2, "")
        assert all(line.startswith("error: ") for line in error.splitlines())
        return error

    return run


@pytest.fixture
def source(tmp_path):
    """300 lines, translated in windows of 128 and 172."""
    path = tmp_path / "source"
    generator = random.Random(0)
    lines = [" ".join(generator.choices([f"w{i}" for i in range(36)], k=generator.randint(0, 9))) for _ in range(300)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def stdin(monkeypatch, content: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_output_line_n_translates_input_line_n(translate, source, tmp_path, tokenizer):
    output = tmp_path / "out"
    assert translate("--input", source, "--output", output, "--num_beams", 2)[0] == 0
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, num_beams=2)
    texts = source.read_text().split("\n")[:-1]
    assert output.read_text() == "".join(f"{result['translation_text']}\n" for result in translator(texts))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "saved", "source"]


def test_standard_input_and_compressed_files_give_the_same_output(translate, source, monkeypatch, tmp_path):
    packed = tmp_path / "source.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    expected = translate("--input", source, *SHORT)[1]
    assert translate("--input", packed, *SHORT)[1] == expected
    stdin(monkeypatch, source.read_bytes())
    assert translate(*SHORT)[1] == expected
    assert len(expected.splitlines()) == 300


def test_only_newlines_end_lines(translate, monkeypatch):
    stdin(monkeypatch, "\ufeffw1\x0cw2\u2028w3\rw4\r\nw5".encode())
    records = translate("--format", "jsonl", *SHORT)[1].split("\n")
    assert [json.loads(line)["source"] for line in records[:-1]] == ["w1\x0cw2\u2028w3\rw4", "w5"]


def test_empty_input_gives_empty_output(translate, monkeypatch, tmp_path):
    stdin(monkeypatch, b"")
    assert translate("--output", tmp_path / "out")[0] == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_bad_lines_are_reported_and_do_not_affect_the_others(translate, monkeypatch):
    lines = [b"w1", b"\xff w2", b"", b" \t ", b"w3\x00\x1b", "漢字".encode(), b"w1 " * 20, b"x" * 100_000, b"w1"]
    stdin(monkeypatch, b"\n".join(lines) + b"\n")
    status, out, err = translate(*SHORT, "--max_source_length", 8)
    translations = out.split("\n")[:-1]
    assert status == 0 and len(translations) == len(lines)
    assert translations[0] == translations[-1] != ""
    assert translations[2] == translations[3] == translations[6] == ""
    assert err.splitlines() == [
        "warning: standard input, line 2: byte 0xff at column 1 is not valid UTF-8 and was read as U+FFFD "
        "(to convert a file: iconv -f ISO-8859-1 -t UTF-8).",
        "warning: standard input, line 7: 21 tokens, more than the limit of 8: use --split_sentences.",
        "warning: 3 translations may be wrong; the first: standard input, line 2: the source has characters or words "
        "that the model's vocabulary lacks: \ufffd; is empty.",
    ]


def test_many_bad_lines_are_counted(translate, monkeypatch):
    stdin(monkeypatch, b"w1 w1 w1\n" * 50)
    err = translate(*SHORT, "--max_source_length", 2)[2].splitlines()
    assert len(err) == 21 and err[-1] == "warning: 50 warnings in total; only the first 20 are shown."


def test_each_sentence_of_a_line_is_translated_by_default(translate, monkeypatch):
    def output(text: bytes, *options) -> str:
        stdin(monkeypatch, text)
        return translate(*SHORT, *options)[1]

    one, two = output(b"w1 w8 .\nw3 w9 .\n").splitlines()
    assert output(b"w1 w8 . w3 w9 .\n") == f"{one} {two}\n"
    assert one and two
    whole = output(b"w1 w8 . w3 w9 .\n", "--no-split_sentences")
    assert whole != f"{one} {two}\n" and len(whole.split()) <= 3


def test_translations_that_may_be_wrong_are_counted_and_marked_in_json(translate, monkeypatch):
    options = ["--max_new_tokens", 60, "--num_beams", 1]
    for text, expected in ((b"w1\n\nw2 w3\n", "2 translations"), (b"\nw1\n", "1 translation")):
        stdin(monkeypatch, text)
        status, out, err = translate("--format", "jsonl", *options)
        first = text.split(b"\n").index(b"w1") + 1
        assert (status, err) == (
            0,
            f"warning: {expected} may be wrong; the first: standard input, line {first}: far longer than usual.\n",
        )
        for record in map(json.loads, out.splitlines()):
            [translation] = record["translations"]
            assert translation.get("warning") == ("far longer than usual" if record["source"] else None)
    stdin(monkeypatch, b"w1\n")
    assert "1 translation may be wrong" in translate("--mbr", "chrf", "--samples", 2, "--max_new_tokens", 60)[2]


def test_json_has_the_requested_fields(translate, monkeypatch, tokenizer):
    stdin(monkeypatch, b"w1 w2\n\n")
    options = ["--format", "jsonl", "--n_best", 2, "--scores", "--alignments", "--max_new_tokens", 4]
    first, empty = map(json.loads, translate(*options)[1].splitlines())
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    expected = translator("w1 w2", n_best=2, num_beams=2, max_new_tokens=4, return_alignments=True)
    assert first["source"] == "w1 w2"
    for got, entry in zip(first["translations"], expected, strict=True):
        assert got["text"] == entry["translation_text"]
        assert got["score"] == pytest.approx(entry["score"])
        assert got["alignment"] == [list(pair) for pair in entry["alignment"]]
        assert got["source_tokens"] == entry["source_tokens"]
    assert [entry["text"] for entry in empty["translations"]] == ["", ""]


def test_translations_begin_with_the_prefixes(translate, write_lines):
    files = ["--input", write_lines("in", ["w1", "w2", "w3"]), "--prefix", write_lines("begin", ["w5 w6", "", "w7"])]
    out = translate(*files, *SHORT)[1].splitlines()
    assert out[0].startswith("w5 w6") and out[2].startswith("w7")
    status, out, err = translate(*files[:2], "--prefix", write_lines("short", ["w5"]), *SHORT)
    assert status == 2 and len(out.splitlines()) == 1 and "short ends after 1 line:" in err


@pytest.mark.slow
def test_mbr_output_depends_only_on_the_seed(translate, source):
    def run(*options):
        return translate("--input", source, "--mbr", "bleu", "--samples", 4, "--max_new_tokens", 3, *options)[1]

    assert run() == run("--seed", 0) != run("--seed", 1)


@pytest.mark.slow
def test_reranked_translations_come_with_both_scores(translate, write_lines, saved_backward):
    beams = ["--input", write_lines("in", ["w1 w2 w3", ""]), "--num_beams", 4, "--max_new_tokens", 4]
    reranked = [*beams, "--rerank_with", saved_backward, "--rerank_weight", 5]
    first, empty = map(json.loads, translate(*reranked, "--format", "jsonl", "--n_best", 4)[1].splitlines())
    totals = [entry["score"] + 5 * entry["source_score"] for entry in first["translations"]]
    assert len(totals) == 4 and totals == sorted(totals, reverse=True)
    assert {entry["text"] for entry in empty["translations"]} == {""}
    assert translate(*reranked)[1].splitlines() == [first["translations"][0]["text"], ""]
    assert translate(*beams)[1] != translate(*reranked)[1]


@pytest.mark.slow
def test_samples_depend_on_the_seed_and_match_greedy_search_at_low_temperature(translate, source):
    def run(*options):
        return translate("--input", source, "--max_new_tokens", 3, *options)[1]

    assert run("--sample", 1) == run("--sample", 1, "--seed", 0) != run("--sample", 1, "--seed", 1)
    assert run("--sample", 1e-6) == run("--num_beams", 1)


def test_samples_of_a_line_are_drawn_independently(translate, write_lines):
    options = ["--format", "jsonl", "--n_best", 20, "--sample", 2, "--max_new_tokens", 4]
    (record,) = map(json.loads, translate("--input", write_lines("in", ["w1 w2"]), *options)[1].splitlines())
    texts = [entry["text"] for entry in record["translations"]]
    assert len(texts) == 20 and len(set(texts)) > 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n_best", 2, "--scores"], "--n_best, --scores: text has only one translation per line"),
        (["--n_best", 5, "--num_beams", 4, "--format", "jsonl"], "--n_best 5 is more than --num_beams 4."),
        (["--samples", 4], "--samples needs --mbr"),
        (["--mbr", "chrf", "--num_beams", 4], "--num_beams cannot be combined with --mbr"),
        (["--mbr", "chrf", "--sample", 1], "--sample cannot be combined with --mbr"),
        (["--glossary", __file__, "--sample", 1], "--sample cannot be combined with --glossary"),
        (["--glossary", __file__], f"{__file__} is not a glossary"),
        (["--on_missing_term", "error"], "--on_missing_term is for the terms of a --glossary and for --keep"),
        (["--keep", "("], "keep: '(' is neither one of code, url"),
        (["--keep", "url", "--mbr", "chrf"], "--keep cannot be combined with --mbr"),
        (["--rerank_weight", 1], "--rerank_weight needs --rerank_with"),
        (["--rerank_with", "other", "--mbr", "chrf"], "--mbr cannot be combined with --rerank_with"),
        (["--rerank_with", "other", "--sample", 1], "--sample cannot be combined with --rerank_with"),
        (["--rerank_with", "other", "--num_beams", 1], "--num_beams must be 2 or more"),
        (["--sample", 1, "--num_beams", 4], "--num_beams: these are options of search"),
        (["--resume"], "--resume needs --output"),
        (["--output", "absent/out"], "its folder does not exist"),
        (["--output", "."], "is a folder"),
        (["--input", "absent.txt"], "absent.txt does not exist"),
    ],
)
def test_invalid_options_exit_with_status_2_before_the_model_is_loaded(options, message, capsys):
    assert main(["translate", "no-model", *map(str, options)]) == 2
    error = capsys.readouterr().err
    assert message in error and "no-model" not in error


def test_translator_error_is_reported_once_and_not_for_each_line(error_of, source, tmp_path, monkeypatch):
    def refuse(self, lines):
        raise ValueError("tgt_lang is missing.")

    monkeypatch.setattr(LineTranslator, "__call__", refuse)
    error = error_of("--input", source, "--output", tmp_path / "out")
    assert error == "error: --target_language is missing.\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--batch_size", "0"], "must be a whole number of at least 1, got '0'"),
        (["--num_beams", "-2"], "must be a whole number of at least 1, got '-2'"),
        (["--batch_tokens", "many"], "must be a whole number of at least 1, got 'many'"),
        (["--length_penalty", "nan"], "must be a number, got 'nan'"),
        (["--length_penalty", "long"], "must be a number, got 'long'"),
        (["--num_beams", "100000"], "must be at most 1,000, got '100000'"),
        (["--n_best", "9" * 30], "must be at most 1,000, got '9999"),
        (["--samples", "10001"], "must be at most 10,000, got '10001'"),
        (["--max_new_tokens", str(10**18)], "must be at most 100,000, got '1000"),
        (["--max_source_length", str(10**18)], "must be at most 1,000,000, got '1000"),
        (["--batch_tokens", str(10**18)], "must be at most 1,000,000,000, got '1000"),
        (["--batch_size", "9" * 5000], "must be a whole number of at least 1, got '9999"),
        (["--seed", "9" * 5000], "must be a whole number from 0 to 4294967295, got '9999"),
        (["--sample", "1e300"], "must be from 1e-06 to 1,000,000, got '1e300'"),
    ],
)
def test_invalid_numbers_exit_with_status_2(saved_model, option, message, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["translate", str(saved_model), *option])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_existing_output_is_kept_without_overwrite(error_of, translate, source, tmp_path):
    output = tmp_path / "out"
    output.write_text("precious")
    assert "exists" in error_of("--input", source, "--output", output)
    assert "is the input" in error_of("--input", output, "--output", output, "--overwrite")
    assert output.read_text() == "precious"
    assert translate("--input", source, "--output", output, "--overwrite", *SHORT)[0] == 0
    assert len(output.read_text().splitlines()) == 300


def test_truncated_file_yields_its_intact_lines_and_can_be_resumed(translate, source, tmp_path):
    packed, output, uninterrupted = tmp_path / "source.gz", tmp_path / "out", tmp_path / "whole"
    source.write_text(source.read_text() * 15)  # more than is decompressed at once
    packed.write_bytes(gzip.compress(source.read_bytes())[:-20])
    status, _, err = translate("--input", packed, "--output", output, *SHORT)
    assert status == 2 and f"{packed} is truncated" in err
    assert 1000 < len(output.read_text().splitlines()) < 4500
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert translate("--input", packed, "--output", output, "--resume", *SHORT)[0] == 0
    translate("--input", source, "--output", uninterrupted, *SHORT)
    assert output.read_text() == uninterrupted.read_text()


def interrupt(monkeypatch, number: int) -> list[int]:
    """Interrupt the translator at the given call; the first call only tries the options."""
    calls, plain = [], LineTranslator.__call__

    def interrupted(self, lines):
        calls.append(len(lines))
        if len(calls) == number:
            raise KeyboardInterrupt
        return plain(self, lines)

    monkeypatch.setattr(LineTranslator, "__call__", interrupted)
    return calls


@pytest.mark.parametrize("options", [SHORT, ["--mbr", "chrf", "--samples", "4", "--max_new_tokens", "3"]])
def test_interrupted_run_resumes_where_it_stopped(translate, error_of, source, tmp_path, monkeypatch, options):
    uninterrupted, output = tmp_path / "whole", tmp_path / "out"
    options = ["--input", source, "--format", "jsonl", *options]
    assert translate(*options, "--output", uninterrupted)[0] == 0
    with monkeypatch.context() as patch:
        calls = interrupt(patch, 3)
        status, _, err = translate(*options, "--output", output)
    assert status == 130 and "after 128 lines. Run the same command again with --resume to continue." in err
    assert calls == [1, 128, 172]
    with output.open("ab") as file:
        file.write(b"half a li")
    assert "seed was 0 and is now 7" in error_of(*options, "--output", output, "--resume", "--seed", 7)
    if "--mbr" in options:  # the samples depend on it
        assert "batch_size was None and is now 5" in error_of(
            *options, "--output", output, "--resume", "--batch_size", 5
        )
    assert "is unfinished" in error_of(*options, "--output", output)
    assert translate(*options, "--output", output, "--resume")[0] == 0
    assert output.read_bytes() == uninterrupted.read_bytes()


@pytest.mark.slow
def test_output_of_another_reranker_is_not_resumed(error_of, translate, source, saved_backward, tmp_path, monkeypatch):
    output, short = tmp_path / "out", ["--num_beams", 2, "--max_new_tokens", 3]
    with monkeypatch.context() as patch:
        interrupt(patch, 3)
        assert translate("--input", source, "--output", output, *short, "--rerank_with", saved_backward)[0] == 130
    again = ["--input", source, "--output", output, "--resume", *short]
    assert "model was" in error_of(*again)
    tiny_model().save_pretrained(saved_backward)
    assert "model was" in error_of(*again, "--rerank_with", saved_backward)


def test_output_of_another_model_is_not_resumed(error_of, translate, source, saved_model, tmp_path, monkeypatch):
    output = tmp_path / "out"
    with monkeypatch.context() as patch:
        interrupt(patch, 3)
        assert translate("--input", source, "--output", output, *SHORT)[0] == 130
    model = tiny_model()
    with torch.no_grad():
        model.model.decoder.layers[1].fc1.bias += 0.01
    model.save_pretrained(saved_model)
    assert "model was" in error_of("--input", source, "--output", output, "--resume", *SHORT)
    assert len(output.read_text().splitlines()) == 128


def command(*arguments, **kwargs) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "hf_vaswani.cli", "translate", *map(str, arguments)], env=environment, **kwargs
    )


@pytest.mark.slow  # By default, only with --overwrite, as below.
def test_killed_run_resumes_to_identical_output(saved_model, translate, source, tmp_path):
    many, uninterrupted, output = tmp_path / "many", tmp_path / "whole", tmp_path / "out"
    many.write_text(source.read_text() * 20)
    process = command(saved_model, "--input", many, "--output", output, *SHORT)
    while process.poll() is None and not (output.exists() and output.stat().st_size):
        time.sleep(0.005)
    time.sleep(random.uniform(0, 0.5))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert (tmp_path / ".out.progress.json").exists()
    assert translate("--input", many, "--output", output, "--resume", *SHORT)[0] == 0
    assert translate("--input", many, "--output", uninterrupted, *SHORT)[0] == 0
    assert output.read_bytes() == uninterrupted.read_bytes()


@pytest.mark.slow
def test_translations_are_streamed_and_a_closed_pipe_is_no_error(saved_model):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with command(saved_model, *SHORT, bufsize=0, **pipes) as process:
        for line in (b"w1\n", b"w2 w3\n"):
            process.stdin.write(line)
            assert process.stdout.readline().endswith(b"\n")
        process.stdout.close()
        process.stdin.write(b"w1\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_ensemble_of_a_model_with_itself_equals_the_model(translate, saved_model, source):
    alone = translate("--input", str(source), *SHORT)
    assert translate("--input", str(source), *SHORT, "--ensemble", str(saved_model)) == alone


def test_ensemble_with_a_different_tokenizer_is_rejected(error_of, saved_model, source, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(saved_model, other)
    tokenizer = AutoTokenizer.from_pretrained(other)
    tokenizer.add_tokens(["new"])
    tokenizer.save_pretrained(other)
    model = AutoModelForSeq2SeqLM.from_pretrained(other)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(other)
    assert "different tokenizer" in error_of("--input", str(source), "--ensemble", str(other))


def test_prefix_file_is_not_overwritten(error_of, source, write_lines):
    prefixes = write_lines("prefixes", ["w1"] * 300)
    message = error_of("--input", source, "--prefix", prefixes, "--output", prefixes, "--overwrite")
    assert f"{prefixes} is the file of prefixes" in message
    assert Path(prefixes).read_text() == "w1\n" * 300


def test_beam_too_large_for_memory_is_one_error(error_of, source, monkeypatch):
    def fail(*_):
        raise RuntimeError("can't allocate memory:\nyou tried to allocate 40000000000 bytes")

    monkeypatch.setattr(LineTranslator, "__call__", fail)
    message = error_of("--input", source, "--num_beams", 9)
    assert message.startswith("error: Nothing can be translated with these options: there is not enough memory.")


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_closed_stream_is_one_error(saved_model, monkeypatch, capsys, stream):
    monkeypatch.setattr(sys, stream, None)
    assert main(["translate", str(saved_model)]) == 2
    assert "is closed. Specify a file with --" in capsys.readouterr().err


def test_unreadable_input_leaves_the_existing_output_intact(translate, source, tmp_path):
    output, packed = tmp_path / "out", tmp_path / "damaged.gz"
    output.write_text("precious\n")
    packed.write_bytes(b"this is not gzip")
    status, _, error = translate("--input", packed, "--output", output, "--overwrite", *SHORT)
    assert status == 2 and f"{packed} cannot be read" in error
    assert output.read_text() == "precious\n"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert translate("--input", packed, "--output", output, "--overwrite", *SHORT)[0] == 0
    assert len(output.read_text().splitlines()) == 300
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.slow
def test_killed_overwrite_keeps_the_old_file_and_resumes_to_identical_output(saved_model, translate, source, tmp_path):
    many, uninterrupted, output, part = (tmp_path / name for name in ("many", "whole", "out", ".out.part"))
    many.write_text(source.read_text() * 20)
    output.write_text("precious\n")
    process = command(saved_model, "--input", many, "--output", output, "--overwrite", *SHORT)
    while process.poll() is None and not (part.exists() and part.stat().st_size):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert output.read_text() == "precious\n"
    assert translate("--input", many, "--output", output, "--resume", *SHORT)[0] == 0
    assert translate("--input", many, "--output", uninterrupted, *SHORT)[0] == 0
    assert output.read_bytes() == uninterrupted.read_bytes()


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("option", ["--input", "--prefix"])
def test_output_that_links_to_an_input_is_rejected(error_of, source, tmp_path, link, option):
    output, other = tmp_path / "out", tmp_path / "other"
    other.write_text("w1\n" * 300)
    getattr(output, link)(other)
    inputs = [word for pair in {"--input": source, option: other}.items() for word in pair]
    error = error_of(*inputs, "--output", output, "--overwrite")
    assert f"{output} is the {'input' if option == '--input' else 'file of prefixes'}" in error
    assert other.read_text() == "w1\n" * 300


@pytest.mark.slow
@pytest.mark.parametrize("end", ["input", pytest.param("output", marks=pytest.mark.slow)])
def test_standard_stream_that_is_the_same_file_is_rejected(saved_model, source, end):
    before = source.read_bytes()
    if end == "input":
        with source.open("rb") as stdin:
            process = command(
                saved_model, "--output", source, "--overwrite", *SHORT, stdin=stdin, stderr=subprocess.PIPE
            )
            error = process.communicate()[1].decode()
    else:
        with source.open("ab") as stdout:
            process = command(saved_model, "--input", source, *SHORT, stdout=stdout, stderr=subprocess.PIPE)
            error = process.communicate()[1].decode()
    assert process.returncode == 2 and "is the input. Choose another file for the output." in error
    assert source.read_bytes() == before


def test_resuming_a_finished_output_says_so_and_exits_with_status_0(translate, error_of, source, tmp_path):
    output = tmp_path / "out"
    options = ["--input", source, "--output", output, *SHORT]
    assert translate(*options)[0] == 0
    before = output.read_bytes()
    for text_age, why in ((1, "Which text and model it is from is not recorded"), (-1, f"{source} is newer")):
        os.utime(source, (0, output.stat().st_mtime - text_age))
        status, _, error = translate(*options, "--resume")
        assert (status, error) == (
            0,
            f"{output} is finished: it has a line for each line of {source}. Nothing to do. ({why}; to translate "
            "again, use --overwrite.)\n",
        )
    with source.open("a") as file:
        file.write("w1\n")
    assert "finished, or was made in another way" in error_of(*options, "--resume")
    assert output.read_bytes() == before


def test_translations_have_the_terms_of_a_glossary(translate, error_of, tmp_path):
    files = {"source": "w1 w2\nw3\nw2 w4\n", "terms.tsv": "w1\tw30|w31\nw4\tw32 w33\n", "output": ""}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = ["--input", tmp_path / "source", "--output", tmp_path / "output", "--format", "jsonl"]
    options += ["--max_new_tokens", 6, "--glossary", tmp_path / "terms.tsv"]
    assert translate(*options, "--overwrite")[0] == 0
    records = [json.loads(line) for line in (tmp_path / "output").read_text().splitlines()]
    texts = [record["translations"][0]["text"] for record in records]
    assert {"w30", "w31"} & set(texts[0].split()) and "w32 w33" in texts[2]
    assert translate(*options, "--overwrite", "--max_new_tokens", 1, "--on_unmet", "error")[2] == ""
