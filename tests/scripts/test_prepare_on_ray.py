"""Batches encoded on Ray: the order of the results, and the loss of processes and two_machines."""

import os
import time

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.runtime import ray_session as ray_session_module

from .conftest import load_script

script = load_script("prepare_on_ray")


def work(number: int) -> int:
    """Squares; odd numbers take longer, and some numbers are special."""
    if number == -1:
        raise InputError("minus one")
    if number == -3:
        os._exit(1)
    time.sleep(0.3 * (number % 2))
    return number * number


@pytest.mark.slow
@pytest.mark.parametrize("number", [None, 1])
def test_results_come_in_order_and_errors_are_raised(two_machines, number):
    encode = script.encode_on_ray
    assert list(encode(number, work, iter(range(30)))) == [number**2 for number in range(30)]
    assert list(encode(number, work, iter([]))) == []
    with pytest.raises(InputError, match="minus one"):
        list(encode(number, work, iter([1, -1])))


@pytest.mark.slow
def test_batch_that_kills_its_process_each_time_is_given_up(two_machines, monkeypatch):
    monkeypatch.setattr(ray_session_module, "RETRIES", 1)
    with pytest.raises(InputError, match="Ray could not tokenize the text: "):
        list(script.encode_on_ray(None, work, iter([-3])))


@pytest.mark.slow
def test_batches_of_a_lost_machine_are_encoded_by_the_others(two_machines):
    results = script.encode_on_ray(None, work, iter(range(60)))
    got = [next(results) for _ in range(6)]
    two_machines.remove_node(two_machines.second, allow_graceful=False)
    assert got + list(results) == [number**2 for number in range(60)]
