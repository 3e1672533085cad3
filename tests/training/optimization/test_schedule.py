import json
import math

import pytest

from hf_vaswani.training.schedule import SCHEDULES, Course, learning_rate, schedule, warmed_up
from hf_vaswani.training.train import train

STEPS = [1, 2, 3999, 4000, 4001, 100_000]


def rate(schedule, step, peak=1.0):
    return learning_rate(schedule, step, peak=peak, warmup=4000, max_steps=100_000, d_model=512)


@pytest.mark.parametrize("step", STEPS)
def test_paper_schedule_is_equation_3(step):
    expected = 1 / math.sqrt(512) * min(1 / math.sqrt(step), step / 4000**1.5)
    assert rate("paper", step) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "linear", "cosine", "constant"])
def test_other_schedules_rise_linearly_to_their_peak(schedule):
    assert rate(schedule, 1, peak=0.8) == pytest.approx(0.8 / 4000)
    assert rate(schedule, 3000, peak=0.8) == pytest.approx(0.6)
    assert rate(schedule, 4000, peak=0.8) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("schedule", "expected"), [("inverse_sqrt", 0.2), ("linear", 0.0), ("cosine", 0.0), ("constant", 1.0)]
)
def test_other_schedules_end_at_their_final_rate(schedule, expected):
    assert rate(schedule, 100_000) == pytest.approx(expected, abs=1e-12)


def test_linear_and_cosine_are_at_half_their_peak_halfway():
    assert rate("linear", 52_000) == pytest.approx(0.5)
    assert rate("cosine", 52_000) == pytest.approx(0.5)


def test_only_schedules_that_decay_until_the_end_depend_on_the_number_of_steps():
    assert {name for name, each in SCHEDULES.items() if each.falls_to_end} == {"linear", "cosine"}


def test_schedule_of_a_program_of_its_own_trains_by_its_name(recipe):
    @schedule("quadratic")
    @warmed_up
    def quadratic(step: int, course: Course) -> float:
        return course.peak * (1 - course.progress(step)) ** 2

    try:
        options = ("--lr_scheduler_type=quadratic", "--learning_rate=0.01", "--warmup_steps=1", "--max_steps=5")
        report = train(recipe(*options, "--logging_steps=1"))
        lines = (report.folder / "log.jsonl").read_text().splitlines()
        rates = [json.loads(line)["learning_rate"] for line in lines if "learning_rate" in line]
        assert rates == pytest.approx([0.01, 0.005625, 0.0025, 0.000625, 0.0])
        assert SCHEDULES["quadratic"].falls_to_end
    finally:
        del SCHEDULES["quadratic"]
