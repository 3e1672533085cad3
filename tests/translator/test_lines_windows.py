import io
import os

import pytest

from hf_vaswani.translator.lines import IncomingLines, Line, windows


def lines(number: int, text: str = "x"):
    return [Line(f"{text}{i}") for i in range(number)]


def test_windows_grow_to_4096_lines_and_contain_every_line_once_in_order():
    cut = list(windows(lines(20_000)))
    assert [len(window) for window in cut] == [128, 512, 2048, 4096, 4096, 4096, 4096, 928]
    assert [line for window in cut for line in window] == lines(20_000)


def test_resuming_after_some_windows_gives_the_same_remaining_windows():
    uninterrupted = list(windows(lines(20_000)))
    for number in (1, 3, 8):
        done = sum(map(len, uninterrupted[:number]))
        assert list(windows(lines(20_000)[done:], number)) == uninterrupted[number:]


def test_long_lines_end_a_window_early():
    cut = list(windows([Line("x" * 400_000)] * 7))
    assert [len(window) for window in cut] == [3, 3, 1]


def test_lines_before_an_error_are_yielded_first():
    def broken():
        yield from lines(134)
        raise OSError("the end is missing")

    cut = windows(broken())
    assert [len(next(cut)), len(next(cut))] == [128, 6]
    with pytest.raises(OSError, match="missing"):
        next(cut)


def test_window_ends_when_the_input_pauses():
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as other:
        incoming = IncomingLines(stream, "standard input", lambda *_: None)
        cut = windows(map(Line, incoming), is_waiting=incoming.is_waiting)
        other.write(b"one\ntwo\nthr")
        assert [line.text for line in next(cut)] == ["one", "two"]
        other.write(b"ee\n")
        assert [line.text for line in next(cut)] == ["three"]
        other.write(b"four")
        other.close()
        assert [line.text for line in next(cut)] == ["four"]
        assert next(cut, None) is None


def test_input_that_cannot_be_polled_never_pauses():
    incoming = IncomingLines(io.BytesIO(b"one\ntwo\n"), "standard input", lambda *_: None)
    assert [len(window) for window in windows(map(Line, incoming), is_waiting=incoming.is_waiting)] == [2]
