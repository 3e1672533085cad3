"""The summary at the end of a run: example translations, scores, and how to use the model."""

import math
from textwrap import indent

from ...errors import counted
from ...hub.run_report import RunReport, TestScores
from ...hub.usage import usage_code
from ...hub.wording import duration

# Below this BLEU, a model has learned next to nothing of its test set.
UNTRAINED = 5.0
# How far the loss is above that of a uniform guess if the run diverged. That of a new model is above it by about 0.5.
DIVERGED = 1.0


def summary(report: RunReport) -> str:
    """The text that a training command prints at its end."""
    lines = []
    for source, translation, reference in report.examples:
        lines += [f"source       {source}", f"translation  {translation}", f"reference    {reference}", ""]
    lines.append(
        f"{counted(report.steps, 'step')} in {duration(60 * report.minutes)}; {report.parameters:,} parameters"
    )
    if report.adapter:
        lines.append(f"adapter for {report.adapter.base}: {report.adapter.size()}")
    lines.append(
        f"validation loss {report.validation_loss:.4f} per target token, perplexity "
        f"{report.validation_perplexity:.2f}; {report.validation_accuracy:.1%} of tokens right"
    )
    for name, scores in report.tests.items():
        lines += score_lines(name, scores)
    guess = math.log(report.tokenizer.target_tokens)
    if not report.validation_loss < guess + DIVERGED:
        lines.append(
            f"The validation loss is far above that of a uniform guess ({guess:.4f}): the run diverged, and more "
            "steps do not help. Start over with --overwrite true and a lower --learning_rate."
        )
    elif any(scores.bleu < UNTRAINED for scores in report.tests.values()):
        lines.append(
            "A BLEU this low means that the model cannot translate yet: it needs more steps. The same command with a "
            "larger --max_steps or --max_minutes continues the run."
        )
    if report.figures:
        places = dict.fromkeys(figure.partition("/")[0] for figure in report.figures)
        lines.append(f"figures: {', '.join(str(report.folder / place) for place in places)}")
    text = report.examples[0][0] if report.examples else "…"
    code = indent(usage_code(str(report.folder), text), " " * 4)
    return "\n".join([*lines, "", "Use the model in Python:", "", code])


def score_lines(name: str, scores: TestScores) -> list[str]:
    """The scores of a test set, with their signatures."""
    lines = [
        f"{name} BLEU {scores.bleu:.2f} ({scores.bleu_signature})",
        f"{name} chrF2 {scores.chrf2:.2f} ({scores.chrf2_signature})",
    ]
    if scores.greedy_bleu is not None:
        lines.append(f"{name} with greedy search: BLEU {scores.greedy_bleu:.2f}, chrF2 {scores.greedy_chrf2:.2f}")
    if scores.mbr_bleu is not None:
        lines.append(
            f"{name} with minimum Bayes risk decoding: BLEU {scores.mbr_bleu:.2f}, chrF2 {scores.mbr_chrf2:.2f}"
        )
    if scores.reranked_bleu is not None:
        lines.append(f"{name} with reranking: BLEU {scores.reranked_bleu:.2f}, chrF2 {scores.reranked_chrf2:.2f}")
    return lines
