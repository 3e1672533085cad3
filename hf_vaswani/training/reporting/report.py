"""What a training came to: figures, example translations, and how to go on."""

from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Any

from ...errors import counted
from ...evaluation.score import Score
from ...hub.model_facts import duration
from ...hub.usage import usage_code
from ..recipe.arguments import MAIN_TEST
from .scores import ScoredTest, perplexity

EXAMPLES = 8
# The types of what `results.json` holds, by which one that was edited is recognized before a card is made of it.
RESULT_TYPES: dict[str, Any] = {
    "update": int, "minutes": float, "seconds": float, "parameters": int, "averaged": list[int], "final_weights": dict,
    "validation_loss": float, "validation_perplexity": float, "validation_accuracy": float,
    "generation": dict, "evaluation": dict, "recipe": dict[str, dict], "name": str, "pictures": list[str],
    "tests": dict[str, dict], "filters": dict[str, int], "sources": dict[str, list[dict]], "faults": list[dict],
    "pairs": dict[str, int | None], "base_model": str | None, "text": str | None,
    "tokenizer": dict, "architecture": dict, "seen": dict[str, int] | None, "epochs": float | None,
    "flops": float | None, "energy": dict[str, list[float]], "machines": list[str], "processes": list[int] | None,
    "precision": str, "versions": dict[str, str], "findings": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Results:
    """What a training came to.

    Attributes:
        folder: what `from_pretrained` and `pipeline` load.
        update, minutes: of training.
        parameters: of the model.
        validation_loss: negative log-likelihood per target token of the final model.
        validation_accuracy: share of target tokens that it ranks first, given those before.
        averaged: updates whose weights the final model is the mean of, or has.
        filters: counts of the filters of the training text.
        settings: the recipe's sections `generation` and `evaluation`, by which the model was measured.
        tests: each test set, translated and scored, by its name; the recipe's own is `test`.
        pictures: paths relative to the folder.
        facts: what else the model card tells, as plain values; of `facts.py`.
        final_weights: what they are and why; of `final_weights.py`.
    """

    folder: Path
    update: int
    minutes: float
    parameters: int
    validation_loss: float
    validation_accuracy: float
    averaged: list[int]
    filters: dict[str, int]
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    tests: dict[str, ScoredTest] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    final_weights: dict[str, Any] = field(default_factory=dict)

    @property
    def test(self) -> list[Score]:
        """BLEU and chrF2 on the recipe's own test set; empty where it has none."""
        return self.tests[MAIN_TEST].found.scores if MAIN_TEST in self.tests else []

    @property
    def validation_perplexity(self) -> float:
        """Per target token."""
        return perplexity(self.validation_loss)

    @property
    def examples(self) -> list[tuple[str, str, str]]:
        """Some sentences of the first test set: source, translation, reference."""
        test = next(iter(self.tests.values()), None)
        triples = zip(test.pairs, test.found.texts) if test else []
        return [(source, translation, reference) for (source, reference), translation in triples][:EXAMPLES]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in `results.json`."""
        names = (
            "update", "minutes", "parameters", "validation_loss", "validation_perplexity", "validation_accuracy",
            "averaged", "final_weights", "filters", "pictures",
        )  # fmt: skip
        tests = {name: test.to_dict() for name, test in self.tests.items()}
        # Those of the recipe's own test set once more, where they are easily found; the card reads `tests`.
        scores = {}
        for score in self.test:
            name = f"test_{score.name.lower()}"
            scores |= {name: score.value, f"{name}_signature": score.signature}
        values = {name: getattr(self, name) for name in names}
        return {**values, **self.settings, **scores, "tests": tests, **self.facts}

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
        lines.append(
            f"{counted(self.update, 'update')} in {duration(60 * self.minutes)}; {self.parameters:,} parameters"
        )
        lines.append(
            f"validation loss {self.validation_loss:.4f} per target token, perplexity "
            f"{self.validation_perplexity:.2f}; {self.validation_accuracy:.1%} right"
        )
        for name, test in self.tests.items():
            lines += [f"{name} {score}" for score in test.found.scores]
            if test.greedy:
                values = ", ".join(f"{score.name} {score.value:.2f}" for score in test.greedy.scores)
                lines.append(f"{name} with greedy search: {values}")
        if self.pictures:
            places = dict.fromkeys(picture.partition("/")[0] for picture in self.pictures)
            lines.append(f"pictures: {', '.join(str(self.folder / place) for place in places)}")
        lines += [
            "",
            "Go on in Python with:",
            "",
            indent(usage_code(str(self.folder), self._example_text()), " " * 4),
        ]
        return "\n".join(lines)

    def _example_text(self) -> str:
        return self.examples[0][0] if self.examples else "…"
