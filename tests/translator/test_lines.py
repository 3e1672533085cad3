import io
import json
import tracemalloc

import pytest
from transformers import pipeline

from hf_vaswani.data.resumable_output import StreamOutput
from hf_vaswani.translator.lines import Line, LineTranslator, as_json, as_text, translate_lines
from hf_vaswani.translator.segments import SourceTooLong

from ..conftest import tiny_model

TOO_LONG = "8 tokens, more than the limit of 5: use --split_sentences"


@pytest.fixture
def translator(tokenizer):
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer)


def translated(text: str, **more) -> list[dict]:
    return [{"translation_text": text, **more}]


def run(lines, translate, write_line=as_text):
    """What was written, and what was reported."""
    stream, reports = io.BytesIO(), []
    translate_lines(
        map(Line, lines), translate, write_line, StreamOutput(stream), lambda *report: reports.append(report)
    )
    return stream.getvalue().decode(), reports


def test_lines_are_translated_as_by_the_pipeline_in_order(translator):
    texts = [f"w{i % 30} w{i % 7}" for i in range(100)]
    written, reports = run(texts, LineTranslator(translator, num_beams=2, max_new_tokens=4))
    expected = [result["translation_text"] for result in translator(texts, num_beams=2, max_new_tokens=4)]
    assert written.splitlines() == expected
    assert reports == []
    assert len(set(expected)) > 5


def test_too_long_line_is_reported_and_left_empty(translator):
    translate = LineTranslator(translator, max_source_length=5, max_new_tokens=3)
    written, reports = run(["w1", "w2 " * 7, "w3"], translate)
    assert [line == "" for line in written.splitlines()] == [False, True, False]
    assert reports == [(2, TOO_LONG)]


def test_limit_above_that_of_the_tokenizer_applies(translator):
    translator.tokenizer.model_max_length = 4
    translate = LineTranslator(translator, max_source_length=8, max_new_tokens=3)
    for line in (Line("w1 w2 w3 w4 w5"), Line("w1 w2 w3 w4 w5", "w6")):
        [[result]] = translate([line])
        assert result["translation_text"]


def test_lower_limit_of_the_model_applies(tokenizer):
    model = tiny_model(position_type="learned", max_position_embeddings=6)
    translate = LineTranslator(pipeline("translation", model=model, tokenizer=tokenizer), max_new_tokens=3)
    assert [isinstance(result, SourceTooLong) for result in translate([Line("w1 " * 5), Line("w1 " * 6)])] == [
        False,
        True,
    ]


def test_long_line_is_translated_in_pieces_on_request(translator):
    translate = LineTranslator(translator, max_source_length=4, split_sentences=True, max_new_tokens=3)
    texts = ["w1 w2 w3 w6", "w6", ""]
    pieces = translator(["w1 w2 w3", "w6"], max_new_tokens=3)
    first, second = (piece["translation_text"] for piece in pieces)
    written, reports = run(texts, translate)
    assert written.split("\n") == [f"{first} {second}", second, "", ""]
    assert reports == []


def test_failing_line_is_reported_and_does_not_affect_the_others(translator, monkeypatch):
    expected, _ = run(["w1", "w3"], LineTranslator(translator, max_new_tokens=3))
    bad = translator.tokenizer.convert_tokens_to_ids("w2")
    forward = translator._forward

    def fail(inputs, **options):
        if bad in inputs["input_ids"]:
            raise RuntimeError("out of\nmemory")
        return forward(inputs, **options)

    monkeypatch.setattr(translator, "_forward", fail)
    written, reports = run(["w1", "w2", "w3"], LineTranslator(translator, max_new_tokens=3))
    first, third = expected.splitlines()
    assert written == f"{first}\n\n{third}\n"
    assert reports == [(2, "RuntimeError: out of memory")]


def test_line_break_in_a_translation_does_not_start_a_second_line():
    written, _ = run(["x", "y"], lambda lines: [translated("one\ntwo\r\nthree\rfour\u2028five") for _ in lines])
    assert written.split("\n") == ["one two three four\u2028five"] * 2 + [""]


def test_json_has_the_source_and_its_translations():
    results = {"a": [{"translation_text": "ä\nb", "score": -0.5}, {"translation_text": "c", "score": -1.0}],
               "bad": SourceTooLong(8, 5)}  # fmt: skip
    written, reports = run(["a", "bad"], lambda lines: [results[line.text] for line in lines], as_json)
    assert [json.loads(line) for line in written.splitlines()] == [
        {"source": "a", "translations": [{"text": "ä\nb", "score": -0.5}, {"text": "c", "score": -1.0}]},
        {"source": "bad", "translations": [], "error": TOO_LONG},
    ]
    assert "ä" in written and reports == [(2, TOO_LONG)]


def test_minimum_risk_samples_depend_only_on_the_window(translator):
    def translate(seed=0, before=()):
        line_translator = LineTranslator(translator, utility="chrf", samples=6, n_best=2, seed=seed, max_new_tokens=5)
        for line in before:
            line_translator([Line(line)])
        return line_translator([Line("w1 w2"), Line("w3")])

    first = translate()
    assert first == translate(before=["w4", "w5"])
    assert first != translate(seed=1)
    assert all(len(entries) == 2 and entries[0]["utility"] >= entries[1]["utility"] for entries in first)


def test_minimum_risk_ranking_returns_an_error_for_a_line_without_candidates(translator):
    translate = LineTranslator(translator, utility="chrf", samples=4, max_source_length=5, max_new_tokens=3)
    first, long, last = translate([Line("w1"), Line("w2 " * 7), Line("w3")])
    assert isinstance(long, SourceTooLong)
    assert [list(result[0]) for result in (first, last)] == [["translation_text", "utility"]] * 2


def test_translation_of_a_line_begins_with_its_prefix(translator):
    translate = LineTranslator(translator, max_new_tokens=3)
    [[entry]] = translate([Line("w1", "w20 w21")])
    assert entry["translation_text"].startswith("w20 w21")


def test_memory_use_does_not_grow_with_the_number_of_lines():
    class NullStream:
        def write(self, content):
            pass

        def flush(self):
            pass

    count = 100_000
    lines = (Line(f"a line of some length with the number {number}") for number in range(count))
    output = StreamOutput(NullStream())
    tracemalloc.start()
    translate_lines(lines, lambda window: [translated(line.text) for line in window], as_text, output, print)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert output.progress.lines == count
    assert peak < 6_000_000
