"""Compares the record of a run with its replay: bit for bit, or to within 1e-5 on another machine."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ...core.configuration_vaswani import VaswaniConfig
from ...errors import counted
from ...hub.trail import Environment, StepRecord, TextDigest

# Relative, for losses and weights: more than another order of summation causes in a few steps, and less than any
# change to the training itself.
TOLERANCE = 1e-5
SPLITS = {"train": "training text", "validation": "validation text"}


class Outcome(IntEnum):
    """How well what was compared agrees, from best to worst."""

    EQUAL = 0
    NOT_COMPARED = 1
    CLOSE = 2
    DIFFERENT = 3


@dataclass(frozen=True)
class Finding:
    """How one part of a run agrees with its record.

    Attributes:
        part: what was compared.
        detail: the outcome in words.
    """

    part: str
    outcome: Outcome
    detail: str

    def __str__(self) -> str:
        return f"{self.part}: {self.detail}"


def compare_recipes(recorded: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]], file: str) -> Finding:
    """Compare the recipe keys that determine the steps.

    Args:
        recorded, now: section → key → value, as [`deciding_keys`] returns them.
        file: the file that the recipe was read from, for the message.
    """
    keys = {(section, name): None for recipe in (recorded, now) for section, names in recipe.items() for name in names}
    changed = [
        f"{section}.{name} was {_shown(before)} in the run, but is {_shown(after)} in {file} or an option"
        for section, name in keys
        if not _is_same_value(
            section, name, before := recorded.get(section, {}).get(name), after := now.get(section, {}).get(name)
        )
    ]
    if changed:
        return Finding("recipe", Outcome.DIFFERENT, "; ".join(changed))
    return Finding("recipe", Outcome.EQUAL, "the keys that determine the steps are those of the run")


def _is_same_value(section: str, name: str, before: Any, after: Any) -> bool:
    """Whether a key means the same in the run and now; `None` stands for a key that is not given."""
    if json.dumps(before) == json.dumps(after):
        return True
    if section != "model":
        return False
    # Recipes are read without the model's defaults, and earlier versions recorded no 0 and no false.
    default = VaswaniConfig().to_dict().get(name)
    return (after is None and before == default) or (before is None and (after == default or not after))


def compare_texts(split: str, recorded: TextDigest, now: TextDigest) -> Finding:
    """Compare a text by its digests, and say in which pairs it first differs."""
    part = SPLITS.get(split, split)
    if recorded.pairs is None or now.pairs is None:
        return Finding(part, Outcome.NOT_COMPARED, "streamed; compared only by the sentences of the first steps")
    if recorded.digest == now.digest:
        return Finding(part, Outcome.EQUAL, f"{counted(now.pairs, 'pair')}, the same")
    words = "different from the run's"
    if recorded.pairs != now.pairs:
        words += f": {counted(recorded.pairs, 'pair')} then, {now.pairs:,} here"
    if recorded.range_length == now.range_length:
        ranges = [number for number, pair in enumerate(zip(recorded.ranges, now.ranges)) if pair[0] != pair[1]]
        if ranges:
            first = ranges[0] * now.range_length
            last = min(first + now.range_length, now.pairs)
            words += f"; it first differs in pairs {first + 1:,} to {last:,}"
            words += ", counted after filtering" if split == "train" else ""
    return Finding(part, Outcome.DIFFERENT, words)


def compare_steps(
    part: str, recorded: list[StepRecord], now: list[StepRecord], other_from: int | None, distance: float | None = None
) -> Finding:
    """Compare the steps of a run with those of its replay.

    Args:
        recorded, now: records of the same steps, as far as the run and the replay made them.
        other_from: the first step whose environment differs here in a way that may change the last bits.
        distance: between the final weights, if it is known.
    """
    replayed = {record.step: record for record in now}
    pairs = [(record, replayed.get(record.step)) for record in recorded]
    first = next(((then, here) for then, here in pairs if difference(then, here)), None)
    if first is None:
        return Finding(part, Outcome.EQUAL, "losses and weights are identical bit for bit")
    gaps = [_gap(then.loss, here.loss) for then, here in pairs if here and then.loss and here.loss]
    is_same_text = all(here and then.batches == here.batches for then, here in pairs if then.batches)
    is_close = bool(gaps) and max(gaps) <= TOLERANCE and (distance is None or distance <= TOLERANCE)
    weights = "" if distance is None else f", weights by up to {distance:.1e}"
    is_explained = other_from is not None and other_from <= first[0].step
    if is_explained and is_close and is_same_text and all(here for _, here in pairs):
        return Finding(part, Outcome.CLOSE, f"losses differ by up to {max(gaps):.1e}{weights}")
    words = f"they first differ at step {first[0].step:,}: {difference(*first)}"
    if gaps:
        words += f" (losses of these steps differ by up to {max(gaps):.1e}{weights})"
    return Finding(part, Outcome.DIFFERENT, words)


def difference(then: StepRecord, here: StepRecord | None) -> str | None:
    """How a replayed step differs, in words; `None` if it is the same bit for bit."""
    if here is None:
        return "it was skipped here, since the loss or a gradient was not finite"
    words = []
    if then.batches and then.batches != here.batches:
        words.append("different token ids in its batches")
    if then.loss and then.loss != here.loss:
        words.append(f"loss {_loss(then)} in the run, {_loss(here)} here")
    if not words and then.weights != here.weights:
        words.append("the same loss, but different weights after it")
    if not words and then.ema != here.ema:
        words.append("the same weights, but a different moving average")
    return "; ".join(words) or None


def compare_digests(part: str, then: str, here: str, is_close: Callable[[], bool], close: str) -> Finding:
    """Compare something that is known only by its digest.

    Args:
        is_close: whether the results that depend on it are close enough even if it differs.
        close: what to report in that case.
    """
    if then == here:
        return Finding(part, Outcome.EQUAL, "the same")
    return (
        Finding(part, Outcome.CLOSE, close)
        if is_close()
        else Finding(part, Outcome.DIFFERENT, "different from the run's")
    )


def causes_of(then: Environment, here: Environment) -> list[str]:
    """What differs in an environment and may change the last bits of sums."""
    causes = []
    if then.processor != here.processor:
        causes.append(f"different processor: {then.processor} then, {here.processor} here")
    elif then.device != "cpu":
        causes.append(f"{then.processor}, whose sums may differ from run to run")
    if then.threads != here.threads and then.device == here.device:
        causes.append(f"different number of threads: {then.threads} then, {here.threads} here")
    for name in sorted(then.versions.keys() | here.versions.keys()):
        before, now = then.versions.get(name, "unknown"), here.versions.get(name, "unknown")
        if before != now:
            causes.append(f"different version of {name}: {before} then, {now} here")
    return causes


def verdict(findings: list[Finding], causes: list[str]) -> tuple[Outcome, str]:
    """The overall outcome, also in words."""
    worst = max(finding.outcome for finding in findings)
    if worst == Outcome.DIFFERENT:
        parts = [finding.part for finding in findings if finding.outcome == Outcome.DIFFERENT]
        words = f"different: {', '.join(parts)}"
        return worst, words + (f" ({'; '.join(causes)})" if causes else "")
    if worst == Outcome.CLOSE:
        return worst, f"equal to {TOLERANCE:.0e} ({'; '.join(causes)})".replace("e-0", "e-")
    return worst, "identical bit for bit"


def _gap(then: str, here: str) -> float:
    """The relative difference between two losses, given as hexadecimal floats."""
    before, now = float.fromhex(then), float.fromhex(here)
    return abs(now - before) / max(abs(before), 1e-30)


def _loss(record: StepRecord) -> str:
    return f"{float.fromhex(record.loss):.9g}" if record.loss else "none"


def _shown(value: Any) -> str:
    return "unset" if value is None else repr(value)
