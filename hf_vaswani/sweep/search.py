"""The search for the lowest validation loss: Optuna proposes trials from a space of values.

Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011 (the tree-structured Parzen
estimator); https://optuna.org.
"""

import math
import re
from typing import Any

from ..files import collect_errors
from ..runtime.imports import import_extra
from .request import Row, SweepRequest, Texts, load_runs

# A range that spans at least this factor is searched on a logarithmic scale.
WIDE = 10
# A search ends after this many useless proposals in a row: repeats, or values that make no valid recipe.
PATIENCE = 200
TRIAL = "trial_{number}"

Space = dict[str, Any]  # key → one of Optuna's distributions


def parse_space(texts: Texts, errors: list[str]) -> Space:
    """The space from the values of a request: each a range `low..high`, or a list. What is neither is an error."""
    found = {key: collect_errors(errors, lambda key=key: _make_part(key, texts[key])) for key in texts}
    return {key: part for key, part in found.items() if part is not None}


def make_ends(space: Space) -> list[Row]:
    """Two rows, of the first and of the last value of each key."""
    ends = {key: getattr(part, "choices", None) or (part.low, part.high) for key, part in space.items()}
    texts = [{key: _write(space[key], values[place]) for key, values in ends.items()} for place in (0, -1)]
    return [Row(", ".join(f"{key} {text}" for key, text in values.items()), values) for values in texts]


class Search:
    """Proposes trials by the losses of earlier ones.

    Attributes:
        trials: those that the sweep already has, and those proposed.
    """

    def __init__(self, request: SweepRequest, space: Space, trials: list[Row]):
        self._optuna: Any = import_extra("optuna", "sweep")
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        sampler = self._optuna.samplers.TPESampler(seed=len(trials), constant_liar=True)
        self._study = self._optuna.create_study(sampler=sampler)
        self._asked: dict[str, Any] = {}
        self._request, self._space, self.trials = request, space, trials

    def propose(self) -> Row | None:
        """A new trial with its runs; `None` if nothing new is found."""
        for _ in range(PATIENCE):
            asked = self._study.ask(self._space)
            values = {key: _write(part, asked.params[key]) for key, part in self._space.items()}
            trial = Row(TRIAL.format(number=len(self.trials) + 1), values)
            load_runs(self._request, [trial], wrong := [])
            # A useless proposal stays open in the study, which then looks elsewhere.
            if not wrong and all(values != other.keys for other in self.trials):
                self.trials.append(trial)
                self._asked[trial.name] = asked
                return trial
        return None

    def tell(self, trial: Row, loss: float) -> None:
        """Take in the loss of a trial; not finite if it failed. What is outside the space tells nothing."""
        states, value = self._optuna.trial.TrialState, loss if math.isfinite(loss) else None
        state = states.FAIL if value is None else states.COMPLETE
        if asked := self._asked.pop(trial.name, None):
            self._study.tell(asked, value, state)
        elif trial.keys.keys() == self._space.keys():
            values = {key: _read(part, trial.keys[key]) for key, part in self._space.items()}
            if None not in values.values():
                known = {"params": values, "distributions": self._space, "value": value, "state": state}
                self._study.add_trial(self._optuna.trial.create_trial(**known))


def _make_part(key: str, texts: list[str]) -> Any:
    """The distribution of a key.

    Raises:
        ValueError: a single value is not a range with its ends in order.
    """
    distributions: Any = import_extra("optuna.distributions", "sweep")
    if len(texts) > 1:
        return distributions.CategoricalDistribution(list(dict.fromkeys(texts)))
    is_whole = re.fullmatch(r"\s*[-+]?\d+\.\.[-+]?\d+\s*", texts[0])
    try:
        low, high = map(int if is_whole else float, texts[0].split(".."))
        kind = distributions.IntDistribution if is_whole else distributions.FloatDistribution
        if low < high and math.isfinite(high - low):
            return kind(low, high, log=low > 0 and high >= WIDE * low)
    except ValueError:  # not numbers
        pass
    raise ValueError(f"search: {key}={texts[0]}: write a range, such as 0.1..0.3, or several values")


def _write(part: Any, value: Any) -> str:
    """A value as on the command line; a number with three significant digits, the ends of its range unrounded."""
    return repr(min(max(float(f"{value:.3g}"), part.low), part.high)) if isinstance(value, float) else str(value)


def _read(part: Any, text: str) -> Any:
    """The value that a text stands for; `None` if it is outside the part."""
    if choices := getattr(part, "choices", None):
        return text if text in choices else None
    try:
        value = type(part.low)(text)
    except ValueError:
        return None
    return value if part.low <= value <= part.high else None
