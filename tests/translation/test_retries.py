import pytest

from hf_vaswani.translation.retries import translate_each


class Machine:
    """Doubles numbers, but none over its memory at once, and not those that it dislikes."""

    def __init__(self, memory: int, disliked=()):
        self.memory, self.disliked, self.calls = memory, set(disliked), 0

    def __call__(self, items):
        self.calls += 1
        if len(items) > self.memory:
            raise RuntimeError("out of memory")
        if self.disliked & set(items):
            raise ValueError("disliked")
        return [2 * item for item in items]


def test_items_that_fail_cost_no_other():
    machine = Machine(1000, disliked=[0, 41, 99])
    results = translate_each(machine, range(100), lambda error: str(error))
    assert results == ["disliked" if item in (0, 41, 99) else 2 * item for item in range(100)]
    assert machine.calls < 50


def test_too_many_at_once_are_translated_in_parts():
    assert translate_each(Machine(7), range(100), str) == [2 * item for item in range(100)]


def test_what_works_is_done_once():
    machine = Machine(100)
    assert translate_each(machine, range(100), str) == [2 * item for item in range(100)]
    assert machine.calls == 1
    assert translate_each(machine, [], str) == []


def test_error_of_all_of_many_items_is_raised():
    with pytest.raises(ValueError, match="disliked"):
        translate_each(Machine(1000, disliked=range(100)), range(100), str)
    assert translate_each(Machine(1000, disliked=range(100)), range(10), str) == ["disliked"] * 10


def test_interruption_is_no_failure_of_an_item():
    def interrupted(items):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translate_each(interrupted, range(10), str)
