"""The kinds of stages that a recipe may have, and the keys of those that do not train.

A stage that trains has the sections of a recipe. Each of the others has a single section with keys of its own.
"""

from dataclasses import dataclass
from typing import Any, Literal

from ...configuration.keys import COUNTLESS, Key, Section
from ...core.generation_beam_search import LARGEST_PENALTY
from ...generation.settings import LARGEST_BEAM
from ...hub.wording import mbr_search
from ..recipe.arguments import MOST_SAMPLES
from ..setup.text_mix import OWN

TRAIN, TRANSLATE, AVERAGE = "train", "translate", "average"
# The output of a stage that translates.
PAIRS_FILE = "pairs.jsonl.gz"
# Keys of a stage that translates which only choose among its translations.
SELECTION = ("keep_closest", "keep_share", "min_score")


def listed(value: Any, default: list[str]) -> Any:
    """A name or a list of names as a list; the default if there is none."""
    return [value] if isinstance(value, str) else value or default


class TranslateArguments(Section):
    """A stage that translates a side of the training text, or other text, into pairs to train on."""

    section = TRANSLATE

    model: str | list[str] | None = Key(
        None,
        "the model that translates: a stage, or a folder or Hub id of any encoder-decoder with a tokenizer; a list is "
        "an ensemble",
    )
    side: Literal["source", "target"] = Key(
        "source",
        "the side to translate: source (forward translation) gives pairs of source and translation; target "
        "(back-translation), pairs of translation and target",
    )
    input: str | list[str] | None = Key(
        None,
        "what to translate: files of text on that side, one sentence per line, also .gz .zst; stages that translate, "
        "for that side of their pairs; own, the training text. Default: own",
        is_path=True,
    )
    num_beams: int | None = Key(None, "number of beams; default: the model's own", ge=1, le=LARGEST_BEAM)
    length_penalty: float | None = Key(
        None, "exponent of the length penalty; default: the model's own", ge=-LARGEST_PENALTY, le=LARGEST_PENALTY
    )
    n_best: int = Key(
        1, "number of different translations per sentence, each of which becomes a pair", ge=1, le=MOST_SAMPLES
    )
    mbr: Literal["chrf", "bleu"] | None = Key(None, "minimum Bayes risk decoding with this utility instead of search")
    samples: int = Key(32, "number of candidates for mbr", ge=2, le=MOST_SAMPLES)
    sample: float | None = Key(
        None, "sample at this temperature instead of searching; 1 is the model's own distribution", gt=0, le=100
    )
    seed: int = Key(0, "random seed for sample and mbr", ge=0, lt=2**32)
    max_new_tokens: int | None = Key(
        None, "maximum number of tokens in a translation; translations cut off there are left out", ge=1, le=100_000
    )
    src_lang: str | None = Key(None, "language of the text, for multilingual models, by the model's code: deu_Latn")
    tgt_lang: str | None = Key(None, "language to translate into, for multilingual models: eng_Latn")
    keep_closest: Literal["chrf", "bleu"] | None = Key(
        None,
        "of each sentence's translations, keep only the one closest to the text's own translation, by this metric "
        "(sequence-level interpolation)",
    )
    keep_share: float | None = Key(None, "keep only this share of the translations, with the best scores", gt=0, le=1)
    min_score: float | None = Key(
        None,
        "keep only translations with at least this score: the log-probability that the search ranks by, divided by "
        "its length penalty; with mbr the utility, 0 to 100",
        ge=-COUNTLESS,
        le=COUNTLESS,
    )

    @property
    def models(self) -> list[str]:
        """The models that translate together."""
        return listed(self.model, [])

    @property
    def inputs(self) -> list[str]:
        """What is translated: `"own"` for the training text, stages that translate, and files."""
        return listed(self.input, [OWN])

    def with_lists(self) -> "TranslateArguments":
        """The same, with `model` and `input` as the lists that they stand for."""
        return self.model_copy(update={"model": self.models, "input": self.inputs})

    @property
    def has_own_text(self) -> bool:
        """Whether the recipe's training text is translated."""
        return OWN in self.inputs

    def violations(self) -> list[str]:
        """Conflicts between keys that are each valid on their own."""
        errors = [] if self.models else ["translate.model is missing: a stage, or the folder or Hub id of a model"]
        if self.mbr and self.sample:
            errors.append("translate.sample and translate.mbr, which samples itself, are both given; choose one")
        for kind in ("mbr", "sample"):
            searched = [name for name in ("num_beams", "length_penalty") if getattr(self, name) is not None]
            if getattr(self, kind) is not None and searched:
                names = ", ".join(f"translate.{name}" for name in searched)
                errors.append(
                    f"{names}: no effect with translate.{kind}, which replaces the search; remove one of them"
                )
        most, name = (self.samples, "samples") if self.mbr else (self.num_beams, "num_beams")
        if most is not None and not self.sample and self.n_best > most:
            errors.append(f"translate.n_best={self.n_best} exceeds translate.{name}={most}")
        if not self.mbr and self.samples != type(self).model_fields["samples"].default:
            errors.append(f"translate.samples={self.samples}: no effect without translate.mbr; remove it")
        if self.keep_closest and self.n_best == 1:
            errors.append("translate.keep_closest has nothing to choose from: raise translate.n_best")
        return errors

    def search(self) -> str:
        """How the stage translates, in words."""
        if self.mbr:
            words = mbr_search(self.mbr, self.samples)
        elif self.sample:
            words = f"samples at temperature {self.sample:g}"
        else:
            words = f"beam {self.num_beams}" if self.num_beams != 1 else "greedy"
            words = "the model's own search" if self.num_beams is None else words
        words += f", {self.n_best} best" if self.n_best > 1 else ""
        return words + (f", of these the closest to the text's own ({self.keep_closest})" if self.keep_closest else "")


class AverageArguments(Section):
    """A stage that makes one model from several: the mean of their weights."""

    section = AVERAGE

    models: list[str] = Key(
        [], "what to average: stages, or folders of runs or models, all with the same architecture and vocabulary"
    )
    last: int | None = Key(
        None, "average this many of the last checkpoints of each run, instead of its final model", ge=1, le=COUNTLESS
    )
    best: int | None = Key(
        None,
        "average this many of each run's best weights by validation, instead of its final model",
        ge=1,
        le=COUNTLESS,
    )

    @property
    def is_of_checkpoints(self) -> bool:
        """Whether checkpoints of runs are averaged instead of their final models."""
        return bool(self.last or self.best)

    def violations(self) -> list[str]:
        """Conflicts between keys that are each valid on their own."""
        errors = [] if self.models else ["average.models is missing: a list of stages or folders"]
        if self.last and self.best:
            errors.append(f"average.last={self.last} and average.best={self.best} are both given; choose one")
        return errors


SECTION_OF_KIND: dict[str, Any] = {
    TRANSLATE: TranslateArguments, AVERAGE: AverageArguments,
}  # fmt: skip
KINDS = (TRAIN, *SECTION_OF_KIND)


@dataclass(frozen=True)
class Stage:
    """A stage of a recipe.

    Attributes:
        name: the name by which other stages refer to what it makes.
        kind: one of `KINDS`.
        arguments: the `Recipe` of a stage that trains, with other stages still by name; otherwise its section's keys.
        given: what the recipe says about the stage, as plain values.
    """

    name: str
    kind: str
    arguments: Any
    given: dict[str, Any]

    @property
    def makes_model(self) -> bool:
        """Whether the stage makes a model rather than pairs."""
        return self.kind != TRANSLATE
