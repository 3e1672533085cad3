"""Verifies a run: replays parts of it on the same text, and compares the results with what the run recorded."""

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from ...errors import InputError
from ...files import collect_errors
from ...hub.trail import FIRST_STEPS, Trail
from ...runtime.launcher import is_launched
from ..checkpoints.checkpoint import EMA_FILE, WEIGHTS_FILE, step_of
from ..optimization.weights import tensors_digest
from ..recipe.recipe import Recipe
from .compare import Finding, Outcome, compare_trails, verdict
from .recorded_run import RecordedRun, read_run, replayed_recipe, with_hint
from .replay import TRAINER, Part, Replayed, replay_as_launched

# The value of `--from` that stands for no checkpoint at all.
NO_CHECKPOINT = "none"


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
    whole = [path for path in run.checkpoints
             if path not in stored or stored[path].outcome != Outcome.DIFFERENT]  # fmt: skip
    errors: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hf-vaswani-") as name:
        folder = Path(name)
        recipe = collect_errors(errors, lambda: replayed_recipe(run, options or [], folder / "run"))
        later = collect_errors(errors, lambda: choose_checkpoint(run.trail, whole, checkpoint))
        first = choose_first_steps(run.trail, steps)
        parts = [part for part in (first, later) if part]
        if not parts and not errors:
            errors.append(f"{where} has no recorded steps to replay")
        if errors:
            raise InputError.of(errors)
        report(f"record: {run.record}")
        if first and steps and first.last != steps:
            report(f"--steps {steps}: {why_fewer(run.trail, first.last)}")
        try:
            results = _replay(run, recipe, parts, folder, report)
        except InputError as error:
            raise with_hint(error, recipe) from None
    findings, causes = compare_trails(run.trail, results, run.file)
    findings += stored.values()
    outcome, words = verdict(findings, causes)
    if missing := run.trail.environments[0].first_step - 1:
        words += f", but the record is incomplete: the steps up to {missing:,} are missing"
    return Verification(findings, outcome, f"{words}, compared with {run.record}" if run.is_copy else words)


def choose_first_steps(trail: Trail, steps: int | None) -> Part | None:
    """The part with a run's first steps, as many as are recorded; `None` if its start is not recorded."""
    recorded = [record.step for record in trail.steps if _is_one_launch(trail, 1, record.step)]
    within = [step for step in recorded if step <= (steps or FIRST_STEPS)]
    return Part(1, within[-1]) if within and trail.initial else None


def why_fewer(trail: Trail, last: int) -> str:
    """Why the first part ends at a step, in words."""
    following = next((f"{record.step:,}" for record in trail.steps if record.step > last), "")
    more = f"The next recorded one is {following}." if following else "No later one is recorded."
    return f"replaying up to {last:,}, the last such step that is recorded and was made like the first. {more}"


def choose_checkpoint(trail: Trail, checkpoints: list[Path], wanted: str | None) -> Part | None:
    """The part from a checkpoint to the next recorded one; `None` if there is no such part.

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
        if last is not None and _is_one_launch(trail, step + 1, last):
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


def _is_one_launch(trail: Trail, first: int, last: int) -> bool:
    return len({environment.launch for environment in trail.environments_within(first, last)}) == 1


def check_weights(trail: Trail, checkpoint: Path) -> Finding | None:
    """Whether the weights in a checkpoint are those that the run recorded; `None` if it recorded none."""
    record = next((record for record in trail.steps if record.step == step_of(checkpoint)), None)
    if record is None:
        return None
    files = {WEIGHTS_FILE: record.weights, **({EMA_FILE: record.ema} if record.ema else {})}
    changed = [file for file, digest in files.items() if _digest(checkpoint / file) != digest]
    if not changed:
        return Finding(f"checkpoint {checkpoint.name}", Outcome.EQUAL, "its weights match the recorded ones")
    words = f"{' and '.join(changed)} {'differs' if len(changed) == 1 else 'differ'} from what the run wrote"
    return Finding(f"checkpoint {checkpoint.name}", Outcome.DIFFERENT, f"{words}; nothing is replayed from there")


def _digest(file: Path) -> str | None:
    try:
        return tensors_digest(load_file(file))
    except (OSError, SafetensorError):
        return None


def _replay(
    run: RecordedRun, recipe: Recipe, parts: list[Part], folder: Path, report: Callable[[str], None]
) -> list[Replayed]:
    """Replay parts: neighbors with the same device, processes, precision and loop share one launch."""
    results: list[Replayed] = []
    groups = itertools.groupby(parts, key=lambda part: run.trail.environment_at(part.first).launch)
    for (_, processes, precision, loop), group in groups:
        together = list(group)
        by = [f"{processes} processes"] * (processes > 1) + ["transformers' Trainer"] * (loop == TRAINER)
        words = " and ".join(map(str, together)) + (f", with {' and '.join(by)}" if by else "")
        report(f"Replaying {f'{run.name}, ' if run.name else ''}{words}")
        recipe.training.mixed_precision = precision
        results += replay_as_launched(recipe, run.trail, together, folder)
    return results
