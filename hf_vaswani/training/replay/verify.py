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
from ...hub.trail import Environment, Trail
from ...runtime.launcher import is_launched
from ..checkpoints.checkpoint import EMA_FILE, WEIGHTS_FILE, step_of
from ..recipe.recipe import Recipe
from ..setup.splits import parse_sources, source_errors
from .compare import (
    Finding,
    Outcome,
    causes_of,
    compare_digests,
    compare_recipes,
    compare_steps,
    compare_texts,
    verdict,
)
from .digests import tensors_digest
from .launch import run_job
from .loops import TRAINER
from .plan import Part, checkpoint_part, environments_within, first_part, launched, shortfall
from .recorded_run import RecordedRun, read_run
from .replay import JobPart, Replayed, ReplayedPart, ReplayJob
from .replayed_recipe import hints, replayed_recipe
from .trail import deciding_keys


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
        InputError: if the run, its text or its model cannot be read, all errors at once; or if a launcher started
            this process.
        TrainingError: if the replay cannot continue.
        TrainingInterrupted: on SIGTERM or Ctrl-C.
    """
    if is_launched():
        raise InputError("hf-vaswani verify starts as many processes as it needs. Run it without a launcher.")
    run = read_run(where)
    with tempfile.TemporaryDirectory(prefix="hf-vaswani-") as name:
        folder, errors = Path(name), []
        recipe, file, left = collect_errors(errors, lambda: replayed_recipe(run, options or [], folder)) or (None,) * 3
        stored = stored_findings(run)
        whole = [path for path in run.checkpoints if path.name not in stored or not _is_bad(stored[path.name])]
        later = collect_errors(errors, lambda: checkpoint_part(run.trail, whole, checkpoint))
        first = first_part(run.trail, steps)
        parts = [part for part in (first, later) if part]
        if not parts and not errors:
            errors.append(f"{run.name} has no recorded steps to replay: it took none, or an earlier version took "
                          "them.")  # fmt: skip
        if errors or recipe is None:
            raise InputError.of(_with_texts(errors, recipe))
        report(f"record: {run.record}")
        if first and (line := shortfall(run.trail, first.last, steps)):
            report(line)
        try:
            replayed = [(part, *entry) for part, entry in zip(parts, _replay(run, parts, file, left, folder, report))]
        except InputError as error:
            lines = str(error).splitlines()
            raise InputError.of(lines + hints(lines, recipe)) from None
        findings, causes = compare(run, recipe, replayed)
        findings += stored.values()
        outcome, words = verdict(findings, causes)
        if missing := run.trail.environments[0].first_step - 1:
            words += f", but the record is incomplete: the steps up to {missing:,} are missing"
        return Verification(findings, outcome, f"{words}, compared with {run.record}" if run.copy else words)


def compare(
    run: RecordedRun, recipe: Recipe, replayed: list[tuple[Part, Trail, ReplayedPart]]
) -> tuple[list[Finding], list[str]]:
    """Compare a run with its replay, and list what has changed in the environment.

    Args:
        replayed: each part, the trail of how its replay began, and its results.
    """
    trail, now = run.trail, replayed[0][1]
    findings = [compare_recipes(trail.recipe, deciding_keys(recipe.to_dict()), run.recipe_file)]
    findings += [compare_texts(split, text, now.texts[split]) for split, text in trail.texts.items()]
    all_causes: list[str] = []
    by_part = []
    for part, _, result in replayed:
        if not result.fits:
            words = "not replayed: the checkpoint has weights of other shapes than this text and recipe give"
            by_part.append(Finding(str(part), Outcome.DIFFERENT, words))
            continue
        recorded = [record for record in trail.steps if part.first <= record.step <= part.last]
        then = environments_within(trail, part.first, part.last)
        causes = [(entry.first_step, causes_of(entry, here)) for entry, here in zip(then, result.environments)]
        other_from = next((step for step, found in causes if found), None)
        by_part.append(compare_steps(str(part), recorded, result.steps, other_from, result.distance))
        all_causes += itertools.chain.from_iterable(found for _, found in causes)

    def is_close() -> bool:
        return bool(all_causes) and by_part[0].outcome in (Outcome.EQUAL, Outcome.CLOSE)

    if trail.tokenizer and now.tokenizer:
        same = "different files, but the same token ids in the first steps"
        findings.append(compare_digests("tokenizer", trail.tokenizer, now.tokenizer, is_close, same))
    if trail.initial and now.initial:
        same = "different in the last bits, but the losses agree"
        findings.append(compare_digests("initial weights", trail.initial, now.initial, is_close, same))
    if trail.teacher or now.teacher:
        same = "different in the last bits, but the losses agree"
        findings.append(compare_digests("teacher", trail.teacher or "", now.teacher or "", is_close, same))
    return findings + by_part, list(dict.fromkeys(all_causes))


def stored_findings(run: RecordedRun) -> dict[str, Finding]:
    """Whether the weights in a run's checkpoints are those that it recorded, by the name of the checkpoint."""
    recorded = {record.step: record for record in run.trail.steps}
    findings = {}
    for path in run.checkpoints:
        record = recorded.get(step_of(path))
        if record is None:
            continue
        name = f"checkpoint {path.name}"
        files = {WEIGHTS_FILE: record.weights, **({EMA_FILE: record.ema} if record.ema else {})}
        changed = [file for file, digest in files.items() if _digest(path / file) != digest]
        if changed:
            differ = "differs" if len(changed) == 1 else "differ"
            words = f"{' and '.join(changed)} {differ} from what the run wrote; nothing is replayed from there"
            findings[path.name] = Finding(name, Outcome.DIFFERENT, words)
        else:
            findings[path.name] = Finding(name, Outcome.EQUAL, "its weights match the recorded ones")
    return findings


def _digest(file: Path) -> str | None:
    try:
        return tensors_digest(load_file(file))
    except (OSError, SafetensorError):
        return None


def _is_bad(finding: Finding) -> bool:
    return finding.outcome == Outcome.DIFFERENT


def _with_texts(errors: list[str], recipe: Recipe | None) -> list[str]:
    """The errors, with those of the texts, which would otherwise be reported only once the replay has begun."""
    if recipe is None:
        return errors
    sources = collect_errors(errors, lambda: parse_sources(recipe.data)) or {}
    errors = errors + source_errors(recipe.data, sources)
    return errors + hints(errors, recipe)


def _replay(
    run: RecordedRun, parts: list[Part], file: Path, options: list[str], folder: Path, report: Callable[[str], None]
) -> list[tuple[Trail, ReplayedPart]]:
    """Replay parts: neighbors with the same device, processes, precision and loop share one launch."""

    def environment(part: Part) -> Environment:
        return run.trail.environment_of(part.first)

    results: list[tuple[Trail, ReplayedPart]] = []
    for _, group in itertools.groupby(parts, key=lambda part: launched(environment(part))):
        together = list(group)
        first = environment(together[0])
        job = ReplayJob(
            recipe=str(file),
            options=[*options, f"--training.mixed_precision={first.mixed_precision}"],
            environments=run.trail.environments,
            parts=[JobPart.of(part, run.trail) for part in together],
        )
        product = f"{run.product}, " if run.product else ""
        report(f"Replaying {product}{' and '.join(map(str, together))}{_by(first)}")
        replayed: Replayed = run_job(job, folder)
        results += [(replayed.trail, part) for part in replayed.parts]
    return results


def _by(environment: Environment) -> str:
    processes = f"{environment.processes} processes" if environment.processes > 1 else ""
    trainer = "transformers' Trainer" if environment.loop == TRAINER else ""
    words = " and ".join(word for word in (processes, trainer) if word)
    return f", with {words}" if words else ""
