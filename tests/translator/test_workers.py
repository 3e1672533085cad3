import os
import signal
import sys
import time

import pytest
import torch
from transformers import pipeline

from hf_vaswani.runtime import machine
from hf_vaswani.translator import search as engine
from hf_vaswani.translator.workers import WorkerDied, can_fork, in_parallel, memory_error

from ..conftest import slow_but

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are forked only on Linux")
TEXTS = [" ".join(f"w{1 + (i * k) % 9}" for k in range(1, 2 + i % 7)) for i in range(40)]
SEARCH = {"num_beams": 3, "max_new_tokens": 8, "batch_size": 4}


@pytest.fixture
def translator(saved_model):
    return pipeline("translation", model=str(saved_model))


@pytest.fixture
def processes(monkeypatch):
    """The number of processes that each call divided its batches among."""
    numbers = []

    def counted(work, items, workers):
        numbers.append(workers)
        return in_parallel(work, items, workers)

    monkeypatch.setattr(engine, "in_parallel", counted)
    return numbers


def test_results_come_with_their_positions():
    results = dict(in_parallel(lambda number: (number**2, os.getpid()), range(2, 9), workers=3))
    assert {position: square for position, (square, _) in results.items()} == {i: (i + 2) ** 2 for i in range(7)}
    assert os.getpid() not in {process for _, process in results.values()}


def test_worker_has_one_thread():
    assert dict(in_parallel(lambda _: torch.get_num_threads(), [0, 1], workers=2)) == {0: 1, 1: 1}


def test_items_are_processed_in_parallel():
    def meet(number):
        began = time.monotonic()
        time.sleep(0.5)
        return began, time.monotonic()

    spans = list(dict(in_parallel(meet, [0, 1], workers=2)).values())
    assert max(began for began, _ in spans) < min(ended for _, ended in spans)


def test_error_in_a_worker_is_raised_and_all_workers_stop():
    def work(number):
        if number == 1:
            raise KeyError("one")
        time.sleep(60)

    began = time.monotonic()
    with pytest.raises(KeyError, match="one"):
        list(in_parallel(work, [0, 1, 2], workers=2))
    assert time.monotonic() - began < 30


def test_error_that_cannot_be_pickled_is_described():
    class Local(Exception):
        pass

    def work(number):
        raise Local("of no module")

    with pytest.raises(RuntimeError, match="Local: of no module"):
        list(in_parallel(work, [0], workers=1))


def test_killed_worker_raises_an_error_with_advice():
    with pytest.raises(WorkerDied, match=r"exit code -9.*num_workers=1"):
        list(in_parallel(lambda _: os.kill(os.getpid(), signal.SIGKILL), [0, 1], workers=2))


def test_workers_stop_when_the_iteration_is_abandoned():
    results = in_parallel(lambda _: os.getpid(), range(100), workers=2)
    _, process = next(results)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.parametrize(
    "options",
    slow_but(
        [{}, {"n_best": 2}, {"return_tensors": True}, {"return_alignments": True}], {}, {"return_alignments": True}
    ),
)
def test_translations_do_not_depend_on_the_number_of_workers(translator, processes, options):
    expected = translator(TEXTS, num_workers=1, **SEARCH, **options)
    assert not processes
    for workers in (2, 3):
        results = translator(TEXTS, num_workers=workers, **SEARCH, **options)
        assert str(results) == str(expected)
    assert processes == [2, 3]


@pytest.mark.slow
def test_workers_give_the_same_results_with_prefixes_and_split_texts(translator, processes):
    options = {**SEARCH, "prefixes": ["w3" if i % 3 else "" for i in range(len(TEXTS))]}
    assert translator(TEXTS, num_workers=2, **options) == translator(TEXTS, num_workers=0, **options)
    options = {**SEARCH, "split_sentences": True, "max_source_length": 4}
    assert translator(TEXTS, num_workers=2, **options) == translator(TEXTS, num_workers=0, **options)
    assert processes == [2, 2]


@pytest.mark.slow
def test_samples_do_not_depend_on_the_number_of_workers(translator, processes):
    search = {**SEARCH, "num_beams": 1, "do_sample": True, "n_best": 2}
    calls = []
    for workers in (1, 2, 3):
        torch.manual_seed(5)
        calls.append([translator(TEXTS, num_workers=workers, **search) for _ in range(2)])
    assert calls[0] == calls[1] == calls[2] and processes == [2, 2, 3, 3]
    first, second = calls[0]
    assert first != second


def test_batches_of_equal_texts_have_different_samples(translator):
    batches = translator(["w1 w2"] * 8, num_workers=2, do_sample=True, num_beams=1, batch_size=1, max_new_tokens=8)
    assert len({str(batch) for batch in batches}) > 4


def test_sampling_one_batch_is_sampling_by_generate(translator):
    inputs = translator.tokenizer(["w1 w2 w3"], return_tensors="pt")
    torch.manual_seed(5)
    expected = translator.model.generate(**inputs, do_sample=True, num_beams=1, max_new_tokens=8)
    torch.manual_seed(5)
    result = translator("w1 w2 w3", do_sample=True, num_beams=1, max_new_tokens=8)
    assert result[0]["translation_text"] == translator.tokenizer.decode(expected[0], skip_special_tokens=True)


def test_errors_of_texts_are_returned_from_workers(translator):
    texts = [*TEXTS, "w1 " * 50]
    results = translator(texts, num_workers=2, on_error="return", max_source_length=20, **SEARCH)
    assert isinstance(results[-1], ValueError) and results[:-1] == translator(TEXTS, num_workers=1, **SEARCH)


def test_progress_is_reported_once_per_text(translator):
    done = []
    translator(TEXTS, num_workers=2, progress=done.append, **SEARCH)
    assert sum(done) == len(TEXTS) and len(done) > 2


def test_large_inputs_use_as_many_workers_as_torch_has_threads(translator, processes, monkeypatch):
    translator(TEXTS, **SEARCH)
    assert not processes
    monkeypatch.setattr(engine, "WORTH_WORKERS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    translator(TEXTS, **SEARCH)
    assert processes == [3]


@pytest.mark.parametrize(
    "options",
    [
        {"logits_processor": [lambda ids, scores: scores]},
        {"stopping_criteria": [lambda ids, scores: torch.zeros(len(ids), dtype=torch.bool)]},
    ],
    ids=["processor", "criterion"],
)
def test_search_that_depends_on_all_batches_stays_in_this_process(translator, processes, options):
    translator(TEXTS, num_workers=2, **{**SEARCH, **options})
    assert not processes


def test_hooks_see_all_batches(translator, processes):
    calls = []
    translator.model.model.encoder.register_forward_hook(lambda *args: calls.append(1))
    translator(TEXTS, num_workers=2, **SEARCH)
    assert len(calls) >= 10 and not processes


def test_no_forking_outside_linux_or_inside_a_worker(monkeypatch):
    assert can_fork()
    assert dict(in_parallel(lambda _: can_fork(), [0], workers=1)) == {0: False}
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not can_fork()


def test_more_workers_than_memory_allows_are_rejected(translator, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(machine, "MEMORY_FILE", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 1048576 kB\nSwapFree: 0 kB\n")
    with pytest.raises(ValueError, match=r"num_workers=6 needs .* 1.0 GiB is available. Choose 5 or fewer"):
        translator("w1", num_workers=6)
    assert memory_error(5) is None
    (tmp_path / "meminfo").unlink()
    assert memory_error(1000) is None


@pytest.mark.parametrize("number", [-1, 1.5, "2", True])
def test_invalid_number_of_workers_is_rejected(translator, number):
    with pytest.raises(ValueError, match="num_workers must be a whole number of at least 0"):
        translator("w1", num_workers=number)
