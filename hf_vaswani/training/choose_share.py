"""Chooses how much of a text to keep: small models are trained on shares of it by score, with several seeds.

Each run has the same model, tokenizer, and number of steps of the same size, as a user has a given time to train in.
How many steps fit into it is measured first, and stored, so that a command that was stopped ends with the same result.
"""

import hashlib
import json
import math
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..cleaning.clean import Judged
from ..cleaning.share_choice import Share, ShareChoice, best_limit
from ..cleaning.shares import LEAST_HELD_OUT, ScoredText
from ..data.sources.text_files import Pair
from ..data.tokenizers.arguments import TokenizerArguments
from ..data.tokenizers.tokenizer import save_tokenizer, train_tokenizer
from ..errors import InputError, counted
from ..files import atomic_write
from .build import build, open_run
from .check import check
from .loop import run_steps
from .optimization.progress import StepListener, StepResult
from .recipe.recipe import make_recipe
from .run import TrainingRun
from .train import processes_of

SEEDS = (1, 2)
# Fewer steps of a run say nothing; steps with which the speed is measured, and those of them that are not counted.
LEAST_STEPS, MEASURED_STEPS, UNCOUNTED_STEPS = 500, 25, 5
# How often a run sees each pair. It is given no more pairs than that: a share that is seen only in part costs nothing
# by being small, unlike in a long run.
EPOCHS = 10
PLAN, TOKENIZER, RUN = "plan.json", "tokenizer", "run"
MODEL = {
    "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "label_smoothing": 0.0,
}  # fmt: skip
VOCABULARY = {"vocab_size": 4000, "byte_fallback": True}
TRAINING = {
    "max_tokens": 1024, "lr_scheduler_type": "linear", "learning_rate": 0.003, "mixed_precision": "no",
    "max_grad_norm": 1.0,
}  # fmt: skip
WARMUP = 0.15


@dataclass(frozen=True)
class Trained:
    """A small model.

    Attributes:
        loss: in nats per character of the held-out targets.
        step_seconds: of a step.
        other_seconds: all others.
        step_pairs: pairs of a step.
    """

    loss: float
    step_seconds: float
    other_seconds: float
    step_pairs: float


def choose_share(
    judged: Iterable[Judged], default: float, folder: Path, minutes: float, trusted: Sequence[Pair] = ()
) -> ShareChoice:
    """Choose the least score of the pairs to keep.

    Args:
        judged: pairs, of which those without a reason are kept, whatever their score.
        default: the least score if nothing is measured.
        folder: for the results of the runs, which are taken from there if they were made of the same text.
        minutes: for all runs together.
        trusted: pairs to compare on; by default, some of the text.

    Raises:
        TrainingInterrupted, TrainingError: as in [`TrainingRun.end_step`].
    """
    text = ScoredText.of(judged, default, trusted)
    about = {"held_out": len(text.held_out), "is_trusted": bool(trusted), "overlap": text.overlap}
    if problem := _problem(text, default, trusted):
        return ShareChoice(default, default, **about, problem=problem)
    runs = len(text.limits) * len(SEEDS)
    plan = _plan(folder, text, default, minutes, runs)
    steps, seconds = plan["steps"], plan["least_seconds"]
    if steps < LEAST_STEPS:
        problem = (
            f"--minutes {minutes:g} allows {counted(max(steps, 0), 'step')} for each of {runs} runs, and "
            f"{LEAST_STEPS} are needed: about --minutes {math.ceil(seconds * runs / 60)}"
        )
        return ShareChoice(default, default, **about, problem=problem)
    losses = {limit: [] for limit in text.limits}
    seen = steps * plan["step_pairs"] / EPOCHS
    size = min(int(seen / text.count(default) * len(text.pairs)), len(text.pairs))
    with tqdm(total=runs, unit=" runs", desc="How much to keep", disable=not sys.stderr.isatty()) as bar:
        for seed in SEEDS:
            sample = text.sample(size, seed)
            for limit in text.limits:
                losses[limit].append(_loss(folder, sample, limit, seed, steps))
                bar.update()
    shares = [Share(limit, text.count(limit), losses[limit]) for limit in text.limits]
    return ShareChoice(best_limit(shares, default), default, shares, size, steps, **about)


def _problem(text: ScoredText, default: float, trusted: Sequence[Pair]) -> str:
    """Why shares cannot be compared, or ""."""
    if not text.count(default):
        return f"no pair has a score of {default:g} or more"
    if len(text.held_out) < LEAST_HELD_OUT:
        found = counted(len(text.held_out), "trusted pair") if trusted else (
            f"{counted(len(text.held_out), 'pair')} of those that are surely translations can be held out"
        )  # fmt: skip
        remedy = "" if trusted else "; name others with --trusted_source and --trusted_target"
        return f"{found}, and at least {LEAST_HELD_OUT} are needed{remedy}"
    return "" if len(text.limits) > 1 else "nearly all pairs have the same score"


def _plan(folder: Path, text: ScoredText, default: float, minutes: float, runs: int) -> dict[str, Any]:
    """The steps of each run, the pairs of a step, and the seconds that the fewest steps would take; measured once."""
    digest, plan = _digest(text, minutes), folder / PLAN
    stored = json.loads(plan.read_text(encoding="utf-8")) if plan.exists() else {}
    if stored.get("digest") != digest:
        plan.unlink(missing_ok=True)  # before what it describes
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        began = time.monotonic()
        # One for all runs, so that they are scored alike: of the pairs that are kept without measuring.
        pairs = text.pairs[: text.count(default)]
        save_tokenizer(train_tokenizer(pairs, TokenizerArguments(**VOCABULARY)), folder / TOKENIZER)
        found = _train(folder, text.pairs, text.held_out, SEEDS[0], MEASURED_STEPS)
        left = (60 * minutes - (time.monotonic() - began)) / runs - found.other_seconds
        seconds = found.other_seconds + LEAST_STEPS * found.step_seconds
        stored = {
            "digest": digest, "steps": int(left / found.step_seconds), "step_pairs": found.step_pairs,
            "least_seconds": seconds,
        }  # fmt: skip
        with atomic_write(plan) as part:
            part.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    return stored


def _digest(text: ScoredText, minutes: float) -> str:
    """A hash of all that the results depend on."""
    settings: list[Any] = [minutes, SEEDS, EPOCHS, MODEL, VOCABULARY, TRAINING, WARMUP]
    own = json.dumps([settings, text.limits, text.scores, text.pairs, text.held_out])
    return hashlib.sha256(own.encode("utf-8")).hexdigest()


def _loss(folder: Path, text: ScoredText, limit: float, seed: int, steps: int) -> float:
    """The loss of a run: it is made, unless its result is there."""
    result = folder / f"least_score_{limit:.7g}_seed_{seed}.json"
    if not result.exists():
        found = _train(folder, text.pairs[: text.count(limit)], text.held_out, seed, steps)
        with atomic_write(result) as part:
            part.write_text(json.dumps({"loss": found.loss}) + "\n", encoding="utf-8")
    return json.loads(result.read_text(encoding="utf-8"))["loss"]


class _StepTimes(StepListener):
    """Notes when steps have ended."""

    def __init__(self):
        self.times: list[float] = []

    def on_step_end(self, result: StepResult) -> None:
        self.times.append(time.monotonic())

    def seconds(self) -> float:
        """The seconds of a step, without those of the first."""
        times = self.times[min(UNCOUNTED_STEPS, len(self.times) - 1) :]
        return (times[-1] - times[0]) / max(len(times) - 1, 1) if times else 0.0


def _train(folder: Path, pairs: Sequence[Pair], held_out: Sequence[Pair], seed: int, steps: int) -> Trained:
    """Train a small model, or resume its run, in a folder that is removed then."""
    began, times, name = time.monotonic(), _StepTimes(), hashlib.sha256(repr((len(pairs), seed, steps)).encode())
    work = folder / f"{RUN}-{name.hexdigest()[:8]}"
    work.mkdir(exist_ok=True)
    data: dict[str, Any] = {"cache_dir": str(work / "cache"), "max_length": TRAINING["max_tokens"], "num_proc": 1}
    for split, texts in (("train", pairs), ("validation", held_out)):
        for side, own in zip(("source", "target"), zip(*texts)):
            path = work / f"{split}.{side}"
            lines = "".join(f"{' '.join(line.split())}\n" for line in own)
            path.write_bytes(lines.encode("utf-8", "replace"))
            data[f"{split}_{side}"] = str(path)
    recipe, errors = make_recipe(
        {
            "data": data, "model": dict(MODEL), "tokenizer": {"path": str(folder / TOKENIZER)},
            "training": {
                **TRAINING, "output_dir": str(work / RUN), "seed": seed, "max_steps": steps,
                "warmup_steps": int(WARMUP * steps), "eval_steps": steps + 1, "eval_sentences": 0,
                "save_steps": max(steps // 4, 1), "save_total_limit": 1, "average_last": 1,
            },
        },
        str(work),
    )  # fmt: skip
    if errors:
        raise InputError.of(errors)
    with processes_of(recipe) as processes:
        setup = build(check(recipe, processes))
        with open_run(setup) as checkpoint:
            run = TrainingRun(setup, checkpoint)
            run.listeners.append(times)
            if not run.is_over():
                with run.active():
                    run_steps(run)
            loss, _ = setup.validator.likelihood(run.raw_model)
    tokens, characters = int(setup.validator.pairs.target_lengths.sum()), sum(len(target) for _, target in held_out)
    shutil.rmtree(work)
    seconds, pairs_seen = times.seconds(), run.progress.seen.get("pairs", 0)
    others = time.monotonic() - began - seconds * len(times.times)
    return Trained(loss * tokens / characters, seconds, others, pairs_seen / steps)
