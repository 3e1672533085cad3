"""What a training came to: figures, example translations, and how to go on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation.score import Score

USE = """\
    import hf_vaswani
    from transformers import pipeline

    translator = pipeline("translation", model={folder})
    print(translator({text})[0]["translation_text"])"""


@dataclass(frozen=True)
class Results:
    """What a training came to.

    Attributes:
        folder: what `from_pretrained` and `pipeline` load.
        update, minutes: of training.
        parameters: of the model.
        validation_loss: negative log-likelihood per target token of the final, averaged model.
        validation_accuracy: share of target tokens that it ranks first, given those before.
        averaged: updates whose weights the final model is the mean of.
        filters: counts of the filters of the training text.
        test: BLEU and chrF on the test set, where the recipe has one.
        examples: some test sentences: source, translation, reference.
        facts: what else the model card tells, as plain values; of `facts.py`.
    """

    folder: Path
    update: int
    minutes: float
    parameters: int
    validation_loss: float
    validation_accuracy: float
    averaged: list[int]
    filters: dict[str, int]
    test: list[Score]
    examples: list[tuple[str, str, str]]
    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in `results.json`."""
        names = (
            "update", "minutes", "parameters", "validation_loss", "validation_accuracy", "averaged", "filters",
        )  # fmt: skip
        scores = {}
        for score in self.test:
            name = f"test_{score.name.lower()}"
            scores |= {name: score.value, f"{name}_signature": score.signature}
        return {**{name: getattr(self, name) for name in names}, **scores, **self.facts}

    def report(self) -> str:
        """What a reader wants to see at the end: example translations, the score, and how to go on."""
        lines = []
        for source, translation, reference in self.examples:
            lines += [
                f"source       {source}",
                f"translation  {translation}",
                f"reference    {reference}",
                "",
            ]
        lines.append(f"{self.update:,} updates in {duration(self.minutes)}; {self.parameters:,} parameters")
        lines.append(
            f"validation loss {self.validation_loss:.4f} per target token; {self.validation_accuracy:.1%} right"
        )
        lines += [f"test {score}" for score in self.test]
        lines += [
            "",
            "Go on in Python with:",
            "",
            *USE.format(folder=quoted(str(self.folder)), text=quoted(self._example_text())).splitlines(),
        ]
        return "\n".join(lines)

    def _example_text(self) -> str:
        return self.examples[0][0] if self.examples else "…"


def duration(minutes: float) -> str:
    """A time as people say it."""
    return f"{minutes:.1f} minutes" if minutes >= 1 else f"{60 * minutes:.0f} seconds"


def quoted(text: str) -> str:
    """Text as it stands in Python code."""
    return json.dumps(text, ensure_ascii=False)
