"""Verifies a run: replays parts of it on the same text, and compares the results with what the run recorded."""

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from ...configuration.keys import Sections
from ...core.configuration_vaswani import VaswaniConfig
from ...errors import InputError, counted
from ...files import collect_errors
from ...records.trail import FIRST_STEPS, Environment, RunTrace, StepRecord, TextDigest
from ...runtime.launcher import is_launched
from ..checkpoints.checkpoint import EMA_FILE, WEIGHTS_FILE, step_of
from ..optimization.weights import tensors_digest
from ..recipe.recipe import SECTIONS
from .recorded_run import RecordedRun, read_run, replayed_recipe, with_hint
from .replay import Part, replay_parts

# Relative, for losses and weights: more than another order of summation causes in a few steps, and less than any
# change to the training itself.
TOLERANCE = 1e-5
# The value of `--from` that stands for no checkpoint at all.
NO_CHECKPOINT = "none"


class Outcome(IntEnum):
    """How well what was compared agrees, from best to worst."""

    EQUAL = 0
    NOT_COMPARED = 1
    CLOSE = 2
    DIFFERENT = 3


@dataclass(frozen=True)
class Finding:
    """How one part of a run agrees with its record: the outcome, also in words."""

    part: str
    outcome: Outcome
    detail: str

    def __str__(self) -> str:
        return f"{self.part}: {self.detail}"


@dataclass(frozen=True)
class Verification:
    """The result of verifying a run.

    Attributes:
        findings: one for each thing that was compared.
        outcome: the worst outcome among them.
        verdict: the outcome in words.
    """

    findings: list[Finding]
    outcome: Outcome
    verdict: str

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs: everything compared is equal to the bit, or to within 1e-5."""
        return self.outcome != Outcome.DIFFERENT


def verify(
    where: str,
    options: list[str] | None = None,
    steps: int | None = None,
    checkpoint: str | None = None,
    report: Callable[[str], None] = print,
) -> Verification:
    """Replay a run's first steps, and those from one checkpoint to the next, and compare them with its record.

    Nothing is written into the run's folder.

    Args:
        where: the folder of a run, its card, or the id of its model on the Hub.
        options: recipe keys, as on the command line: `["--train_source=train.de"]`.
        steps: how many of the first steps to replay, up to the last one of them that is recorded; by default all
            that were recorded one by one.
        checkpoint: the one to replay from: name, path, step, or "none"; by default the one with the fewest steps to
            the next.
        report: called with a line about what is to be replayed, before that begins.

    Raises:
        InputError: if the run, its text or its model cannot be read; or if a launcher started this process.
        TrainingError: if the replay cannot continue.
        TrainingInterrupted: on SIGTERM or Ctrl-C.
    """
    if is_launched():
        raise InputError("hf-vaswani verify starts as many processes as it needs. Run it without a launcher.")
    run = read_run(where)
    stored = {path: finding for path in run.checkpoints if (finding := check_weights(run.trail, path))}
    intact = [path for path in run.checkpoints if path not in stored or stored[path].outcome == Outcome.EQUAL]
    errors: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hf-vaswani-") as folder:
        recipe = collect_errors(errors, lambda: replayed_recipe(run, options or [], Path(folder)))
        first = first_part(run.trail, steps or FIRST_STEPS)
        later = collect_errors(errors, lambda: part_from_checkpoint(run.trail, intact, checkpoint))
        parts = [part for part in (first, later) if part]
        if not parts and not errors:
            errors.append(f"{where} has no recorded steps to replay")
        if errors:
            raise InputError.of(errors)
        report(f"record: {run.record}")
        if first and steps and first.last != steps:
            following = next((record.step for record in run.trail.steps if record.step > first.last), None)
            more = f"The next recorded one is {following:,}." if following else "No later one is recorded."
            why = "the last such step that is recorded and was made like the first"
            report(f"--steps {steps}: replaying up to {first.last:,}, {why}. {more}")
        try:
            parts = replay_parts(run, recipe, parts, report)
        except InputError as error:
            raise with_hint(error, recipe) from None
    findings, causes = compare(run, parts)
    findings += stored.values()
    outcome, verdict = max(finding.outcome for finding in findings), "identical bit for bit"
    if outcome == Outcome.CLOSE:
        verdict = "equal to 1e-5"
    elif outcome == Outcome.DIFFERENT:
        verdict = f"different: {', '.join(finding.part for finding in findings if finding.outcome == outcome)}"
    if outcome >= Outcome.CLOSE and causes:
        verdict += f" ({'; '.join(causes)})"
    if missing := run.trail.environments[0].first_step - 1:
        verdict += f", but the record is incomplete: the steps up to {missing:,} are missing"
    return Verification(findings, outcome, verdict)


def check_weights(trail: RunTrace, checkpoint: Path) -> Finding | None:
    """Whether the weights in a checkpoint are those that the run recorded; `None` if it recorded none."""
    record = next((record for record in trail.steps if record.step == step_of(checkpoint)), None)
    if record is None:
        return None
    for file, recorded in ((WEIGHTS_FILE, record.weights), (EMA_FILE, record.ema)):
        try:
            is_equal = recorded is None or tensors_digest(load_file(checkpoint / file)) == recorded
        except (OSError, SafetensorError):
            is_equal = False
        if not is_equal:
            words = f"{file} differs from what the run wrote; nothing is replayed from there"
            return Finding(f"checkpoint {checkpoint.name}", Outcome.DIFFERENT, words)
    return Finding(f"checkpoint {checkpoint.name}", Outcome.EQUAL, "its weights match the recorded ones")


def first_part(trail: RunTrace, steps: int) -> Part | None:
    """A run's first steps, as many as are recorded; `None` if its start is not recorded."""
    ends = [record.step for record in trail.steps if record.step <= steps and trail.is_one_launch(1, record.step)]
    return Part(1, ends[-1]) if ends and trail.initial else None


def part_from_checkpoint(trail: RunTrace, checkpoints: list[Path], wanted: str | None) -> Part | None:
    """The steps from a checkpoint to the next recorded one; `None` if there are no such steps.

    Args:
        checkpoints: those that can be resumed from.
        wanted: name, path or step of a checkpoint, or "none"; by default the one with the fewest steps to the next,
            the last of several.

    Raises:
        InputError: if the wanted checkpoint does not exist, or leads to no recorded one.
    """
    if wanted == NO_CHECKPOINT:
        return None
    by_step = {step_of(path): path for path in checkpoints}
    # The first steps are all recorded; later ones only at checkpoints, which may be gone by now.
    ends = [record.step for record in trail.steps if record.step > FIRST_STEPS or record.step in by_step]
    parts = {}
    for step, path in by_step.items():
        last = min((end for end in ends if end > step), default=None)
        if last is not None and trail.is_one_launch(step + 1, last):
            parts[path.name] = Part(step + 1, last, path, by_step.get(last))
    if wanted is None:
        return min(reversed(parts.values()), key=lambda part: part.last - part.first, default=None)
    found = by_step.get(int(wanted)) if wanted.isdecimal() else Path(wanted)
    if found is None or found.name not in parts:
        raise InputError(
            f"--from {wanted}: the run has no such checkpoint that leads to a recorded one. Choose from: "
            f"{', '.join(parts) or f'{NO_CHECKPOINT} (no checkpoint)'}"
        )
    return parts[found.name]


def compare(run: RecordedRun, parts: list[Part]) -> tuple[list[Finding], list[str]]:
    """Compare a run with its replay, and list what differs in the environment and may change the last bits of sums."""
    then, here, causes = run.trail, parts[0].trail, []
    steps = [compare_steps(then, part, causes) for part in parts]
    findings = [compare_recipes(then.recipe, here.recipe, run.file)]
    findings += [compare_texts(split, text, here.texts[split]) for split, text in then.texts.items()]
    for key, name in (("tokenizer", "tokenizer"), ("initial", "initial weights"), ("teacher", "teacher")):
        before, now = getattr(then, key), getattr(here, key)
        if before is None and (now is None or key != "teacher"):  # the record of the beginning may be lost
            continue
        if before == now:
            findings.append(Finding(name, Outcome.EQUAL, "the same"))
        elif causes and steps[0].outcome != Outcome.DIFFERENT:
            findings.append(Finding(name, Outcome.CLOSE, "different, but the steps agree"))
        else:
            findings.append(Finding(name, Outcome.DIFFERENT, "different from the run's"))
    return findings + steps, list(dict.fromkeys(causes))


def compare_recipes(recorded: Sections, now: Sections, file: str) -> Finding:
    """Compare the recipe keys that determine the steps, as [`deciding_keys`] returns them.

    Args:
        file: the file that they were read from now, for messages.
    """
    changed, of_model = [], VaswaniConfig().to_dict()
    for section in recorded | now:
        keys = SECTIONS[section].model_fields if section in SECTIONS else {}
        before, after = recorded.get(section, {}), now.get(section, {})
        for name in before | after:
            then, here = before.get(name), after.get(name)
            default = of_model.get(name) if section == "model" else name in keys and keys[name].default
            if then is None and (not here or here == default):
                continue  # an earlier version did not have the key, or recorded no 0
            if json.dumps(then) != json.dumps(default if here is None and section == "model" else here):
                words = ["unset" if value is None else repr(value) for value in (then, here)]
                changed.append(f"{section}.{name} was {words[0]} in the run, but is {words[1]} in {file} or an option")
    words = "; ".join(changed) or "the keys that determine the steps are those of the run"
    return Finding("recipe", Outcome.DIFFERENT if changed else Outcome.EQUAL, words)


def compare_texts(split: str, then: TextDigest, here: TextDigest) -> Finding:
    """Compare a text by its digests, and say in which pairs it first differs."""
    part = {"train": "training text", "validation": "validation text"}.get(split, split)
    if then.pairs is None or here.pairs is None:
        return Finding(part, Outcome.NOT_COMPARED, "streamed; compared only by the sentences of the first steps")
    if then.digest == here.digest:
        return Finding(part, Outcome.EQUAL, f"{counted(here.pairs, 'pair')}, the same")
    words = "different from the run's"
    if then.pairs != here.pairs:
        words += f": {counted(then.pairs, 'pair')} then, {here.pairs:,} here"
    size = here.range_length
    first = next(
        (number * size for number, pair in enumerate(zip(then.ranges, here.ranges)) if pair[0] != pair[1]), None
    )
    if first is not None and then.range_length == size:
        words += f"; it first differs in pairs {first + 1:,} to {min(first + size, here.pairs):,}"
        words += ", counted after filtering" if split == "train" else ""
    return Finding(part, Outcome.DIFFERENT, words)


def compare_steps(trail: RunTrace, part: Part, causes: list[str]) -> Finding:
    """Compare the steps of a part with those of its replay.

    Args:
        causes: gets what differs in the environment and may have changed their last bits.
    """
    replayed = {record.step: record for record in part.trail.steps}
    if not replayed:
        words = "not replayed: the checkpoint has weights of other shapes than this text and recipe give"
        return Finding(str(part), Outcome.DIFFERENT, words)
    pairs = [(then, replayed.get(then.step)) for then in trail.steps if part.first <= then.step <= part.last]
    different = [(then.step, words) for then, here in pairs if (words := difference(then, here))]
    is_explained = False
    for then in trail.environments_within(part.first, part.last):
        found = environment_causes(then, part.trail.environment_at(max(then.first_step, part.first)))
        is_explained |= bool(found and different and then.first_step <= different[0][0])
        causes += found
    if not different:
        return Finding(str(part), Outcome.EQUAL, "losses and weights are identical bit for bit")
    losses = [(float.fromhex(then.loss), float.fromhex(here.loss))
              for then, here in pairs if here and then.loss and here.loss]  # fmt: skip
    gap = max((abs(here - then) / max(abs(then), 1e-30) for then, here in losses), default=math.inf)
    differ = f"losses differ by up to {gap:.1e}"
    differ += "" if part.distance is None else f", weights by up to {part.distance:.1e}"
    is_same_text = all(here and (not then.batches or then.batches == here.batches) for then, here in pairs)
    if is_explained and is_same_text and max(gap, part.distance or 0) <= TOLERANCE:
        return Finding(str(part), Outcome.CLOSE, differ)
    (first, words), more = different[0], f" ({differ} in these steps)" if losses else ""
    return Finding(str(part), Outcome.DIFFERENT, f"they first differ at step {first:,}: {words}{more}")


def difference(then: StepRecord, here: StepRecord | None) -> str:
    """How a replayed step differs, in words; empty if it is the same bit for bit."""
    if here is None:
        return "it was skipped here, since the loss or a gradient was not finite"
    words = []
    if then.batches and then.batches != here.batches:
        words.append("different token ids in its batches")
    if then.loss and then.loss != here.loss:
        shown = [f"{float.fromhex(record.loss):.9g}" if record.loss else "none" for record in (then, here)]
        words.append(f"loss {shown[0]} in the run, {shown[1]} here")
    if not words and (then.weights, then.ema) != (here.weights, here.ema):
        what = "weights" if then.weights != here.weights else "moving average of the weights"
        words.append(f"the same loss, but different {what} after it")
    return "; ".join(words)


def environment_causes(then: Environment, here: Environment) -> list[str]:
    """What differs in an environment and may change the last bits of sums."""
    before, now = (
        {"processor": environment.processor, "number of threads": environment.threads}
        | {f"version of {name}": version for name, version in sorted(environment.versions.items())}
        for environment in (then, here)
    )
    causes = [
        f"different {name}: {before.get(name, 'unknown')} then, {now.get(name, 'unknown')} here"
        for name in before | now
        if before.get(name) != now.get(name) and (name != "number of threads" or then.device == here.device)
    ]
    if then.device != "cpu" and then.processor == here.processor:
        causes.append(f"{then.processor}, whose sums may differ from run to run")
    return causes
