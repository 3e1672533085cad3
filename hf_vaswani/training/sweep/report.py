"""The results of a sweep: the typed content of its `sweep.json`."""

import json
import math
import statistics
from typing import Literal

from ...hub.run_report import Part, RunReport


class Spread(Part):
    """The values of several seeds, with their mean and deviation.

    Attributes:
        deviation: the sample standard deviation, with n - 1 in its denominator; `None` for a single value, or if a
            value is not finite.
        values: in the order of the runs.
    """

    mean: float
    deviation: float | None
    values: list[float]

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """The spread of one or more values."""
        has_deviation = len(values) > 1 and all(map(math.isfinite, values))
        deviation = statistics.stdev(values) if has_deviation else None
        return cls(mean=statistics.fmean(values), deviation=deviation, values=values)


class TestResult(Part):
    """The scores of a run on a test set."""

    __test__ = False  # or pytest would collect it as tests

    bleu: float
    chrf2: float


class RunResult(Part):
    """The results of a run; without values if it failed.

    Attributes:
        folder: the name of the run's folder in the sweep's folder.
        exit_code, error: of the run's process.
        parameters: the number of parameters of the model.
    """

    seed: int
    folder: str
    state: Literal["finished", "failed"]
    exit_code: int = 0
    error: str | None = None
    parameters: int | None = None
    steps: int | None = None
    minutes: float | None = None
    validation_loss: float | None = None
    tests: dict[str, TestResult] = {}

    @classmethod
    def of(cls, seed: int, folder: str, report: RunReport) -> "RunResult":
        """The results of a finished run."""
        return cls(
            seed=seed,
            folder=folder,
            state="finished",
            parameters=report.parameters,
            steps=report.steps,
            minutes=report.minutes,
            validation_loss=report.validation_loss,
            tests={name: TestResult(bleu=test.bleu, chrf2=test.chrf2) for name, test in report.tests.items()},
        )


class BleuDifference(Part):
    """The difference in BLEU from the first combination, as [`Difference`] has it."""

    value: float
    low: float
    high: float
    p_value: float


class TestSpread(Part):
    """The scores of a combination on a test set.

    Attributes:
        difference: `None` for the first combination, or if the two cannot be compared.
    """

    __test__ = False

    bleu: Spread
    chrf2: Spread
    difference: BleuDifference | None = None


class CombinationResult(Part):
    """The results of the runs of a combination; without values if all of them failed.

    Attributes:
        values: key → text as on the command line.
    """

    name: str
    values: dict[str, str]
    runs: list[RunResult]
    parameters: int | None = None
    steps: Spread | None = None
    minutes: Spread | None = None
    validation_loss: Spread | None = None
    tests: dict[str, TestSpread] = {}

    @property
    def finished(self) -> list[RunResult]:
        """The runs that have values."""
        return [run for run in self.runs if run.state == "finished"]

    @property
    def full_loss(self) -> float | None:
        """The mean validation loss; `None` if it is not finite or a run failed, as the others may have been lucky."""
        loss = self.validation_loss
        if loss is None or len(loss.values) < len(self.runs) or not math.isfinite(loss.mean):
            return None
        return loss.mean

    @classmethod
    def of(
        cls, name: str, values: dict[str, str], runs: list[RunResult], differences: dict[str, BleuDifference]
    ) -> "CombinationResult":
        """The results of a combination from those of its runs.

        Args:
            differences: test set → difference from the first combination.
        """
        plain = cls(name=name, values=values, runs=runs)
        finished = plain.finished
        if not finished:
            return plain
        tests = {
            test: TestSpread(
                bleu=Spread.of([run.tests[test].bleu for run in finished]),
                chrf2=Spread.of([run.tests[test].chrf2 for run in finished]),
                difference=differences.get(test),
            )
            for test in finished[0].tests
            if all(test in run.tests for run in finished)
        }
        return cls(
            name=name,
            values=values,
            runs=runs,
            parameters=finished[0].parameters,
            steps=Spread.of([run.steps for run in finished]),
            minutes=Spread.of([run.minutes for run in finished]),
            validation_loss=Spread.of([run.validation_loss for run in finished]),
            tests=tests,
        )


class SweepReport(Part):
    """The results of a sweep.

    Attributes:
        recipe: file or name, as it was given.
        options: further recipe keys, common to all runs.
        combinations: the results of each; all are compared with the first one.
        notes: why differences are missing, and what makes runs differ other than their values.
        losses_compare: whether the validation losses of all combinations can be compared.
        figure: whether curves were drawn.
    """

    recipe: str
    options: list[str]
    seeds: list[int]
    resamples: int
    combinations: list[CombinationResult]
    notes: list[str] = []
    losses_compare: bool = True
    figure: bool = False

    @property
    def failed(self) -> list[RunResult]:
        """The runs that failed."""
        return [run for result in self.combinations for run in result.runs if run.state == "failed"]

    @property
    def best(self) -> CombinationResult | None:
        """The combination with the lowest mean validation loss; `None` if fewer than two have one, or their losses
        cannot be compared."""
        losses = [(loss, result) for result in self.combinations if (loss := result.full_loss) is not None]
        if len(losses) < 2 or not self.losses_compare:
            return None
        return min(losses, key=lambda pair: pair[0])[1]

    def to_json(self) -> str:
        """The content of `sweep.json`."""
        return json.dumps(self.model_dump(), indent=2, ensure_ascii=False) + "\n"
