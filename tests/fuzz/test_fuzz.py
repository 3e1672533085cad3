"""Odd and damaged input everywhere: none does harm, ends in a traceback, or is rejected without a reason.

The inputs come from generators with a fixed seed. A failure lists each input, the steps before it, and its command;
`python -m tests.fuzz NAME FOLDER` runs one of them, found by part of its name, and leaves its files in a folder.
"""

import random
from collections import Counter

import pytest

from . import calls, commands, folders, machines, recipes, shapes, strangers
from .runner import Input, Outcome

SEED = 20261123
SURFACES = {"commands": commands, "recipes": recipes, "folders": folders, "calls": calls}
SURFACES |= {"machines": machines, "shapes": shapes, "strangers": strangers}
# By default only every n-th input is run; inputs that train take longer.
SHARE = {"commands": 120, "recipes": 200, "folders": 200, "calls": 60, "machines": 24, "shapes": 120, "strangers": 80}
SHOWN = 100


def inputs_of(surface: str) -> list[Input]:
    """The inputs of a surface, without duplicates."""
    return list({case.name: case for case in SURFACES[surface].inputs(random.Random(SEED))}.values())


INPUTS = {surface: inputs_of(surface) for surface in SURFACES}
SOME = {surface: cases[:: SHARE[surface]] for surface, cases in INPUTS.items()}


def report(outcomes: list[Outcome]) -> str:
    """The inputs that failed, most harmful first."""
    order = {kind: place for place, kind in enumerate(("harm", "litter", "hang", "panic", "traceback"))}
    failed = sorted((o for o in outcomes if o.problems), key=lambda o: order.get(o.problems[0][0], len(order)))
    kinds = Counter(outcome.problems[0][0] for outcome in failed)
    head = f"{len(failed)} of {len(outcomes)} inputs: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}"
    return "\n".join([head, *map(str, failed[:SHOWN]), *[f"… {len(failed) - SHOWN} more"] * (len(failed) > SHOWN)])


def check(cases: list[Input], run_all, capsys) -> None:
    outcomes = run_all(cases)
    accepted = sum(outcome.status == 0 for outcome in outcomes)
    with capsys.disabled():
        print(f"\n{len(cases)} inputs, {accepted} accepted, {len(cases) - accepted} refused ", end="")
    assert not any(outcome.problems for outcome in outcomes), report(outcomes)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: f"{len(SOME[surface])} {surface}")
def test_some_odd_inputs_do_no_harm(surface, run_all, capsys):
    check(SOME[surface], run_all, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: f"{len(INPUTS[surface])} {surface}")
def test_odd_inputs_do_no_harm(surface, run_all, capsys):
    check(INPUTS[surface], run_all, capsys)


def test_there_are_a_thousand_reproducible_inputs():
    assert sum(map(len, INPUTS.values())) >= 1000
    assert all(
        [case.name for case in inputs_of(surface)] == [case.name for case in INPUTS[surface]] for surface in INPUTS
    )
