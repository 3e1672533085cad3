"""The results of a finished run: the typed content of its `results.json`, which the model card is written from.

The file keeps the names of the first version, so that the card of an earlier run can be written again.
"""

import json
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from ..configuration.keys import Keys, Sections
from ..errors import InputError, reason
from ..ledger import Input, Provenance
from . import RESULTS_FILE
from .trail import RecordPart, RunTrace

# What the recipe calls its own test set.
MAIN_TEST = "test"


def _without_surrogates(text: object) -> object:
    """Text that UTF-8 can encode; a JSON file may contain half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_without_surrogates)]


class Source(RecordPart):
    """Where text comes from, under the names that others know: files without folders, or a dataset."""

    files: list[Text] | None = None
    dataset: Text | None = None
    on_hub: bool = False
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    weight: float | None = None
    reversed: bool = False


class PairError(RecordPart):
    """An error in training pairs that the filters looked for."""

    pairs: int
    meaning: str
    left_out: bool


class CleanedText(RecordPart):
    """What `hf-vaswani clean` did to text that a run was trained on.

    Attributes:
        sources: names of the raw text, without folders.
        read, kept: number of its pairs.
        reasons, repairs: number of pairs that were left out and repaired, by name, without zeros.
    """

    sources: list[Text]
    read: int
    kept: int
    reasons: dict[str, int]
    repairs: dict[str, int]


class TokenizerInfo(RecordPart):
    """Kind and sizes of a tokenizer."""

    type: str
    joint: bool
    source_tokens: int
    target_tokens: int


class Architecture(RecordPart):
    """The fields of a model's config that a reader compares models by."""

    encoder_layers: int
    decoder_layers: int
    d_model: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    d_k: int | None = None
    d_v: int | None = None
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    norm_position: str
    position_type: str
    max_position_embeddings: int | None
    share_encoder_decoder_embeddings: bool
    tie_word_embeddings: bool
    dropout: float | None = None
    embedding_dropout: float | None = None
    attention_dropout: float | None = None
    activation_dropout: float | None = None
    encoder_word_dropout: float | None = None
    decoder_word_dropout: float | None = None
    encoder_layerdrop: float | None = None
    decoder_layerdrop: float | None = None
    label_smoothing: float


class Seen(RecordPart):
    """What all steps have seen, without padding."""

    pairs: int
    source_tokens: int
    target_tokens: int


class ComparedWeights(RecordPart):
    """Weights that might have become the final model, and their loss on the validation set."""

    weights: str
    steps: list[int]
    validation_loss: float


class FinalWeights(RecordPart):
    """What became the final model and why.

    Attributes:
        average: the recipe's key `average`.
        weights: the weights that were chosen, in words.
    """

    average: str
    weights: str
    compared: list[ComparedWeights]

    def comparison(self) -> str:
        """The validation losses that it was chosen by, as the end of a sentence; empty if there was no choice."""
        losses = {entry.weights: f"{entry.validation_loss:.4f}" for entry in self.compared}
        chosen = losses.pop(self.weights)
        others = ", ".join(f"{loss} for {name}" for name, loss in losses.items())
        return f", chosen by validation loss: {chosen}, against {others}" if others else ""


class AdapterInfo(RecordPart):
    """A LoRA adapter that was trained in place of a model's own weights.

    Attributes:
        parameters: number of parameters that were trained.
        all_parameters: number of parameters of the model with its adapter.
        base: the model's name.
        merged: whether it was merged into the model's weights.
    """

    parameters: int
    all_parameters: int
    base: Text
    merged: bool

    def size(self) -> str:
        """How much was trained, in words."""
        return f"{self.parameters:,} trained parameters, {self.parameters / self.all_parameters:.2%} of all"


class TermShares(RecordPart):
    """How many terms of a glossary stand in translations.

    Attributes:
        in_sources: number of their source terms in the sources.
        found, found_with_glossary: number of these whose target term stands in the translation, without and with it.
    """

    in_sources: int
    found: int
    found_with_glossary: int


class TestScores(RecordPart):
    """The scores of a test set by the recipe's search, greedy search, minimum Bayes risk decoding, reranking, and with
    a glossary, with sacreBLEU's signatures.

    Attributes:
        terms: how many terms of this glossary the translations have.
        unreachable: number of references that the model cannot write, by cause; `None` if there are none.
        engine: what computed the translations; `None` in reports from before it was recorded.
    """

    __test__ = False  # for pytest, which would take it for tests

    sentences: int | None = None
    unreachable: dict[str, int] | None = None
    engine: str | None = None
    terms: TermShares | None = None
    bleu: float | None = None
    bleu_signature: str | None = None
    chrf2: float | None = None
    chrf2_signature: str | None = None
    greedy_bleu: float | None = None
    greedy_bleu_signature: str | None = None
    greedy_chrf2: float | None = None
    greedy_chrf2_signature: str | None = None
    mbr_bleu: float | None = None
    mbr_bleu_signature: str | None = None
    mbr_chrf2: float | None = None
    mbr_chrf2_signature: str | None = None
    reranked_bleu: float | None = None
    reranked_bleu_signature: str | None = None
    reranked_chrf2: float | None = None
    reranked_chrf2_signature: str | None = None
    glossary_bleu: float | None = None
    glossary_bleu_signature: str | None = None
    glossary_chrf2: float | None = None
    glossary_chrf2_signature: str | None = None


class Example(RecordPart):
    """A sentence and its translation."""

    source: Text
    translation: Text


class Sample(Example):
    """A translation with its reference and its chrF2."""

    chrf2: float
    reference: Text


class LengthGroup(RecordPart):
    """The score of the sentences whose sources have a length in some range, in tokens."""

    shortest: int
    longest: int
    sentences: int
    chrf2: float


class Analysis(RecordPart):
    """What the translations of a test set show: examples, and where the model is weak.

    Attributes:
        sentences: number of sentences in the test set.
        empty: number of translations without text.
        at_limit: number of translations that are cut off at the maximum length; there may be more.
        sources_cut: number of sources longer than the model takes.
        source_tokens, unknown_tokens: tokens of all sources, and those among them that are unknown.
        longest_trained: tokens of the longest source trained on, if known.
        beyond_training: number of sources that are longer than that.
    """

    sentences: int
    example: Example
    best: list[Sample]
    worst: list[Sample]
    by_length: list[LengthGroup]
    source_tokens: int
    unknown_tokens: int
    empty: int
    at_limit: int
    sources_cut: int
    longest_trained: int | None = None
    beyond_training: int | None = None


class SearchReport(RecordPart):
    """Speed and scores of a model's translations of the sentences on which teacher and student are compared."""

    search: str
    sentences_per_second: float
    bleu: float
    chrf2: float


class TeacherReport(RecordPart):
    """The final model compared with the teacher whose translations it learned from, on the same sentences and machine.

    Attributes:
        models: the teacher's models, which translated as an ensemble.
        parameters: number of parameters of all of them.
        sentences: number of sentences compared on.
        test: the test set that they come from.
        teacher: the teacher's results, by its own search.
        student: the final model's results, with greedy search.
        agreement: BLEU of the student's translations against the teacher's.
        signature: sacreBLEU's signature of all BLEU scores here.
        int8_bytes: size of the final model's weights exported in int8; `None` if that was not possible.
    """

    models: list[Text]
    parameters: int
    sentences: int
    test: str
    teacher: SearchReport
    student: SearchReport
    agreement: float
    signature: str
    int8_bytes: int | None = None


class RunReport(RecordPart):
    """The results of a run.

    Attributes:
        folder: the folder that `from_pretrained` and `pipeline` load.
        examples: source, translation and reference of some sentences of the first test set.
        steps, minutes, seconds: number of training steps, and the time they took.
        parameters: number of the model's parameters.
        validation_loss: negative log-likelihood per target token of the final model.
        validation_accuracy: share of target tokens that it ranks first, given those before.
        averaged: steps whose weights the final model averages; a single one if it has those weights.
        filters: counts of the filters of the training text; empty if they were not counted.
        pair_errors: what these filters found.
        cleaned: how the training text was cleaned, as far as that is known.
        near_copies: number of pairs of a validation or test set whose sources are also in the training text, but for
            case, digits, spaces, and marks; by the name of the set, without zeros.
        generation, evaluation: the recipe's sections that the model was measured with.
        tests: scores of each test set by its name; the recipe's own is `test`.
        analysis: analysis of the first test set.
        figures: paths of figures, relative to the folder.
        sources: sources of each split.
        pairs: number of pairs in each split; `None` if they were not counted.
        base_model: id on the Hub of the model that was fine-tuned.
        class_name: the model's class, if it is one of transformers' own.
        adapter: the adapter that was trained; `None` if the model's own weights were.
        text: the recipe's name for the text.
        languages: source and target language; `None` where it is unknown, or there are several.
        directions: of a model for several, source and target language of each.
        seen: what all steps have seen; `None` before the first one.
        epochs: how often each training pair was seen, if known.
        flops: estimated floating-point operations of training; `None` if there is no estimate.
        energy: joules, and the seconds in which they were measured, by kind of device.
        machines, processes: the machines, and the numbers of processes, that trained, each once.
        name: the name that the card was given.
        card: digest of the card that was written with the report.
        recipe: the recipe as the card shows it.
        trail: the trail that the run can be replayed from.
        inputs: the models, tokenizers and pairs that the run was made from, with their provenance.
        teacher: comparison with another model, such as the one that it learned from.
    """

    folder: Path = Field(default=Path(), exclude=True)
    examples: list[tuple[Text, Text, Text]] = Field(default=[], exclude=True)
    steps: int
    minutes: float = 0.0
    seconds: float
    parameters: int
    validation_loss: float
    validation_perplexity: float
    validation_accuracy: float
    averaged: list[int]
    final_weights: FinalWeights | None = None
    filters: dict[str, int]
    pair_errors: list[PairError]
    cleaned: list[CleanedText] = []
    near_copies: dict[str, int] = {}
    generation: Keys | None = None
    evaluation: Keys | None = None
    tests: dict[str, TestScores]
    analysis: Analysis | None = None
    figures: list[str] = []
    sources: dict[str, list[Source]]
    pairs: dict[str, int | None]
    base_model: str | None = None
    class_name: str | None = None
    adapter: AdapterInfo | None = None
    text: str | None = None
    languages: list[str | None] = [None, None]
    directions: list[list[str]] = []
    tokenizer: TokenizerInfo
    architecture: Architecture
    seen: Seen | None
    epochs: float | None
    flops: float | None
    energy: dict[str, list[float]]
    machines: list[str]
    processes: list[int] | None = None
    precision: str
    versions: dict[str, str]
    name: str | None = None
    card: str | None = None
    recipe: Sections | None = None
    trail: RunTrace | None = None
    inputs: list[Input] = []
    teacher: TeacherReport | None = None

    def has_made(self, *roles: str) -> bool:
        """Whether what the run used in these roles was made by commands whose records it has."""
        found = [source.made for source in self.inputs if source.role in roles]
        return bool(found) and None not in found

    def provenance(self) -> Provenance:
        """How the final model was made."""
        results = {name: getattr(self, name) for name in ("steps", "parameters", "validation_loss")}
        tests = {name: scores.model_dump(exclude_unset=True) for name, scores in self.tests.items()}
        trail = {"trail": self.trail.shown().model_dump(exclude_defaults=True)} if self.trail else {}
        return Provenance(command="train", settings=self.recipe or {}, inputs=self.inputs,
                          results={**results, "tests": tests, **trail}, seconds=self.seconds)  # fmt: skip

    def to_dict(self) -> Keys:
        """The keys and values of `results.json`.

        The scores of the recipe's own test set are repeated at the top level, where they are easy to find.
        """
        values = self.model_dump(exclude_unset=True)
        main = values["tests"].get(MAIN_TEST, {})
        return {**values, **{f"test_{name}": main[name] for name in main if name.startswith(("bleu", "chrf2"))}}

    def to_json(self) -> str:
        """The content of `results.json`."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
        return text.encode("utf-8", "replace").decode() + "\n"


def parse_report(values: Keys, folder: Path = Path()) -> RunReport:
    """A report from the keys and values of `results.json`.

    Args:
        folder: the run's folder.

    Raises:
        InputError: lists all keys that are missing or have values of the wrong type, in one line.
    """
    try:
        return RunReport.model_validate({**values, "folder": folder})
    except ValidationError as error:
        found = [f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in error.errors()]
        raise InputError("; ".join(found)) from None


def read_report(folder: Path) -> RunReport:
    """The report of a finished run.

    Raises:
        InputError: it is damaged.
    """
    try:
        values = json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise InputError("it contains no keys with values")
        return parse_report(values, folder)
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(folder, reason(error)) from None


def damaged(folder: Path, why: str) -> InputError:
    """The error for a report that cannot be used."""
    return InputError(
        f"{folder / RESULTS_FILE} is damaged ({why}). Rerun the run's command: it does no more training, and rewrites "
        "the file and the card."
    )
