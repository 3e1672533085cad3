"""The keys of a recipe, section by section, each with its default, meaning and bounds."""

import re
from typing import Literal

from ...configuration.keys import COUNTLESS, Key, Section
from ...core.generation_beam_search import LARGEST_PENALTY
from ...generation.settings import LARGEST_BEAM, LARGEST_OFFSET
from ..schedule import SCHEDULES

SPLITS = ("train", "validation", "test")
# The name that the results give to the test set of `data.test`, `data.test_source` or `data.test_split`.
MAIN_TEST = "test"
# Larger numbers are typos: tokens in a sentence; threads or processes on a machine; anything that fills memory.
LONGEST, MOST_PROCESSES, MANY = 1_000_000, 1024, 1_000_000_000
# In bytes: file names have at most 255, and contain more than the name of the test set.
LONGEST_TEST_NAME = 100
# Limited because minimum Bayes risk decoding compares all candidates of a sentence with each other.
MOST_SAMPLES = 10_000
# What the best weights may be chosen by.
METRICS = ("loss", "bleu", "chrf")
# How a run is uploaded to the Hub; these have no effect without `push_to_hub`.
HUB_KEYS = ("hub_model_id", "hub_private_repo", "hub_strategy", "hub_revision")
# The keys of models that a run distills, and of those that only take part in scoring what it made.
TEACHER, RERANKER, COMPARED = "training.distill_from", "evaluation.rerank_with", "evaluation.compare_with"
# What a model may be trained on besides files of pairs.
OWN, REVERSED = "own", "reversed"
# The keys of a source that make a model one for several directions.
LANGUAGE_KEYS = ("source_language", "target_language", "both_directions")
# What is said of a file of pairs, if more than its weight.
PAIRS_KEYS = {"weight", "tag", "source_language", "target_language"}
# PEFT's name for all linear layers.
ALL_LINEAR = "all-linear"
# fmt: off
# A path, the fields of a `TextSource`, or a list of these to mix.
Sources = str | dict | list | None


def text_keys(split: str) -> tuple[str, str, str]:
    """The keys that name a split's files: one for a file with both sides, or those for source and target."""
    return split, f"{split}_source", f"{split}_target"


class DataArguments(Section):
    """Where the parallel text comes from, and which pairs are left out."""

    section = "data"

    dataset: str | None = Key(
        None, "Hub id or folder of a dataset; 'built-in': this package's synthetic German–English corpus",
        resumable=True
    )
    dataset_config: str | None = Key(None, "configuration of the dataset: de-en", resumable=True)
    dataset_revision: str | None = Key(None, "commit or branch of the dataset on the Hub", resumable=True)
    train_split: str = Key("train", "split to train on, slices allowed: train[1%:]", resumable=True)
    validation_split: str | None = Key(
        "validation", "split to validate on: train[:1%]; null with validation_share", resumable=True
    )
    test_split: str | None = Key("test", "split to test on; null for none, and with test_share", resumable=True)
    source_language: str | None = Key(
        None, "code of the source language: de; selects columns, and is named in the model card"
    )
    target_language: str | None = Key(None, "code of the target language")
    source_column: str | None = Key(
        None, "column of source text; default: 'translation', the language, or 'source'", resumable=True
    )
    target_column: str | None = Key(None, "column of target text", resumable=True)
    header: bool | None = Key(
        None, "whether .tsv and .csv files begin with a row of column names; default: inferred from that row",
        resumable=True
    )
    train: Sources = Key(
        None, "file with both sides (.tsv .csv .jsonl .parquet .tmx, also .gz .zst), or sources to mix; see "
        "docs/how_to/text.md", resumable=True, is_path=True
    )
    validation: Sources = Key(None, "the same, for validation", resumable=True, is_path=True)
    test: Sources = Key(None, "the same, for the test set; optional", resumable=True, is_path=True)
    train_source: str | None = Key(
        None, "file of training sentences, one per line; also .gz .zst", resumable=True, is_path=True
    )
    train_target: str | None = Key(None, "file of their translations, line by line", resumable=True, is_path=True)
    validation_source: str | None = Key(None, "file of validation sentences", resumable=True, is_path=True)
    validation_target: str | None = Key(None, "file of their translations", resumable=True, is_path=True)
    test_source: str | None = Key(None, "file of test sentences, optional", resumable=True, is_path=True)
    test_target: str | None = Key(None, "file of their translations", resumable=True, is_path=True)
    tests: dict = Key(
        {}, "more test sets by name, each given as for test: {test_2017: {source: a.de, target: a.en}}; scored at "
        "the end", resumable=True
    )
    text: dict | list | None = Key(
        None, "what to train on: own, the training text that these keys name; reversed, the same with its sides "
        "swapped; and files of pairs that hf-vaswani translate --pairs wrote. A list, or a weight for each: {own: 2, "
        "pairs.jsonl.gz: 1}, also with a tag that the sources of a file begin with: {own: null, pairs.jsonl.gz: {tag: "
        "bt}}; default: own", resumable=True, is_path=True
    )
    temperature: float | None = Key(
        None, "how often each direction is drawn, in a model for several: in proportion to its number of pairs to the "
        "power of 1 / temperature; 1: each pair once per epoch; 5 favors small ones, in the vocabulary, too", ge=1,
        le=1000, resumable=True
    )
    mark_targets: bool = Key(
        False, "begin each source text with a token of its target language, even if there is only one; always true "
        "with several, and with training.start_from a model of several"
    )
    reversed: bool = Key(False, "train the opposite direction: the sides of all texts and the languages are swapped")
    validation_share: float | None = Key(
        None, "hold out this share of the training pairs, at random, for validation", gt=0, lt=1
    )
    test_share: float | None = Key(
        None, "hold out this share of the training pairs, at random, for the test set", gt=0, lt=1
    )
    split_seed: int = Key(1, "random seed of the held-out pairs; independent of training.seed", ge=0, lt=2**32)
    streaming: bool = Key(
        False, "read training text as it is needed, for text that fits neither in memory nor on disk"
    )
    max_length: int | None = Key(256, "leave out training pairs with more tokens on either side", ge=1, le=LONGEST)
    max_length_coverage: float | None = Key(
        None, "instead of max_length: the length that this share of the training pairs does not exceed on either side",
        gt=0, le=1
    )
    max_length_ratio: float | None = Key(
        None, "leave out training pairs with more than this many times as many tokens on one side as on the other",
        ge=1, le=LONGEST
    )
    drop_duplicates: bool = Key(False, "leave out repeated training pairs")
    drop_copies: bool = Key(False, "leave out training pairs whose target equals the source")
    drop_control_characters: bool = Key(False, "leave out training pairs with control characters")
    num_proc: int | None = Key(
        None, "processes that tokenize; default: one per core for more than 100,000 pairs", ge=1, le=MOST_PROCESSES,
        resumable=True, private=True
    )
    name: str | None = Key(None, "name of the dataset, for the model card: Multi30k", resumable=True)
    license: str | None = Key(None, "license of the dataset, for the model card: CC BY 2.0 FR", resumable=True)
    cache_dir: str | None = Key(
        None, "cache folder of prepared text; default: $HF_VASWANI_CACHE or Hugging Face's cache", resumable=True,
        private=True
    )

    @property
    def has_directions(self) -> bool:
        """Whether a model learns several directions, or may: sources name their own, or targets are marked."""
        given = [self.train, self.validation, self.test, *self.tests.values()]
        return self.mark_targets or self._have_any(given, *LANGUAGE_KEYS)

    @property
    def has_marks(self) -> bool:
        """Whether sources may begin with marks of languages or tags."""
        return self.has_directions or self._have_any([self.train], "tag")

    def _have_any(self, given: list, *keys: str) -> bool:
        """Whether any of the given sources, or a part of `text`, has any of some keys."""
        entries = [entry for value in given for entry in (value if isinstance(value, list) else [value])]
        entries = [*entries, *(self.text.values() if isinstance(self.text, dict) else ())]
        return any(isinstance(entry, dict) and any(map(entry.get, keys)) for entry in entries)

    @property
    def text_languages(self) -> tuple[str | None, str | None]:
        """The languages of the source and target sides of all texts, in the direction that is trained."""
        languages = self.source_language, self.target_language
        return languages[::-1] if self.reversed else languages

    # fmt: on
    def validate(self) -> list[str]:
        """Errors for keys of this section that conflict."""
        errors, given = [], {split: self._given(split) for split in SPLITS}
        if self.dataset and any(given.values()):
            names = ", ".join(f"data.{name}" for names in given.values() for name in names)
            errors.append(f"data.dataset={self.dataset!r} and {names} are both given; choose one")
        for split, names in given.items():
            sides = [f"{split}_source", f"{split}_target"]
            share = f", or data.{split}_share: 0.05, to hold out that share of the training pairs" * (split != "train")
            is_missing = not names and split != "test" and getattr(self, f"{split}_share", None) is None
            if split in names and len(names) > 1:
                errors.append(f"data.{split} and data.{names[1]} are both given; choose one")
            elif len(names) == 1 and split not in names:
                [missing] = set(sides) - set(names)
                errors.append(f"data.{missing} is missing: the path of a text file")
            elif is_missing and not self.dataset:
                others = f"data.dataset: built-in, or data.{split}: a file with both sides{share}"
                errors += [f"data.{name} is missing: the path of a text file (or {others})" for name in sides]
            elif is_missing and getattr(self, f"{split}_split") is None:
                errors.append(f"data.{split}_split is missing: the split of the dataset{share}")
        errors += self._test_name_errors() + self._mixture_errors()
        if self.streaming and self.temperature:
            errors.append(
                f"data.temperature={self.temperature} needs the numbers of all pairs, unlike data.streaming: give the "
                "sources weights instead"
            )
        if self.streaming and self.drop_duplicates:
            errors.append(
                "data.drop_duplicates has to remember all pairs, which data.streaming does not allow: choose one"
            )
        return errors + self._share_errors() + self._length_errors()

    def _share_errors(self) -> list[str]:
        """Conflicts about pairs held out of the training text."""
        errors, shares = [], {}
        for split in SPLITS[1:]:
            name = f"{split}_share"
            share = getattr(self, name)
            if share is None:
                continue
            shares[name] = share
            others = self._given(split) + [f"{split}_split"] * bool(self.dataset and getattr(self, f"{split}_split"))
            if others:
                names = " and ".join(f"data.{other}={getattr(self, other)!r}" for other in others)
                errors.append(
                    f"data.{name}={share} holds out a {split} set, but one is also given by {names}: choose "
                    "one"
                )
        entries = self.train if isinstance(self.train, list) else [self.train]
        if shares and any(isinstance(entry, dict) and entry.get("reversed") for entry in entries):
            errors.append(
                f"data.train: a source with reversed: true cannot be combined with data.{next(iter(shares))}: its "
                "pairs might be held out in one direction only. Swap its source and target instead"
            )
        if all(0 < share < 1 for share in shares.values()) and sum(shares.values()) >= 1:
            errors.append(f"data.{' and data.'.join(shares)} leave nothing to train on: their sum must be below 1")
        return errors

    def _length_errors(self) -> list[str]:
        """Conflicts about the length limit of training pairs."""
        if (self.max_length is None) == (self.max_length_coverage is None):
            return [
                "set one of data.max_length, a number of tokens, and data.max_length_coverage, a share of the "
                "pairs"
            ]
        if self.max_length_coverage is not None and self.streaming:
            return [
                "data.max_length_coverage needs the lengths of all pairs, unlike data.streaming: set "
                "data.max_length"
            ]
        return []

    def _given(self, split: str) -> list[str]:
        return [name for name in text_keys(split) if getattr(self, name)]

    def _test_name_errors(self) -> list[str]:
        """What is wrong with the names of test sets, which become file names and keys of the results."""
        return [
            f"data.tests: {name!r} cannot be the name of a test set: use letters and digits, with . _ - only in "
            f"between, at most {LONGEST_TEST_NAME} bytes, and not {', '.join(SPLITS)}"
            for name in map(str, self.tests)
            if not re.fullmatch(r"\w([\w.-]*\w)?", name) or len(name.encode()) > LONGEST_TEST_NAME or name in SPLITS
        ]

    def _mixture_errors(self) -> list[str]:
        """What is wrong with `text`."""
        text = self.text
        if text is None:
            return []
        if not text or not all(isinstance(name, str) for name in text):
            return [f"data.text must name at least one text, {OWN}, {REVERSED}, or a file of pairs; got {text!r}"]
        errors = []
        if isinstance(text, dict):
            for name, value in text.items():
                weight = value.get("weight") if isinstance(value, dict) else value
                is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
                if weight is not None and not (is_number and weight > 0):
                    errors.append(f"data.text: the weight of {name} must be a number above 0, got {weight!r}")
                if isinstance(value, dict) and name in (OWN, REVERSED):
                    errors.append(f"data.text: {name} has only a weight: only files have keys")
                elif isinstance(value, dict) and (unknown := set(value) - PAIRS_KEYS):
                    errors.append(
                        f"data.text: {name} has the unknown key {min(unknown)!r}; choose from "
                        f"{', '.join(sorted(PAIRS_KEYS))}"
                    )
        elif len(set(text)) < len(text):
            errors.append("data.text lists a text twice; to count one more often, give weights: {own: 2, …}")
        if set(text) == {REVERSED}:
            errors.append("data.text: reversed alone is the opposite direction; to train it, set data.reversed: true")
        return errors
    # fmt: off


class TrainingArguments(Section):
    """Optimization (section 5.3 of the paper), length of the run, checkpoints."""

    section = "training"

    output_dir: str | None = Key(
        None, "folder for checkpoints, the log, and the final model", resumable=True, private=True
    )
    start_from: str | None = Key(
        None, "fine-tune this model with its tokenizer: folder, Hub id or another toolkit's checkpoint"
    )
    add_language: str | None = Key(
        None, "language to add to a multilingual model of start_from that does not know it: gn_Latn; needs like"
    )
    like: str | None = Key(None, "language of that model, related to add_language, whose token it begins as: spa_Latn")
    keep_languages: list[str] = Key(
        [], "cut the vocabulary of a model of start_from to tokens in the characters of these languages, those of the "
        "text: [spa_Latn, grn_Latn]"
    )
    freeze: list[str] = Key([], "parameters to freeze, by name prefix: [model.encoder]")
    seed: int = Key(1, "random seed of initialization, data order and dropout", ge=0, lt=2**32)
    max_steps: int | None = Key(
        100_000, "optimizer steps; null if num_train_epochs or max_minutes ends the run", ge=1, le=COUNTLESS,
        resumable=True
    )
    num_train_epochs: int | None = Key(
        None, "stop after this many passes over the training text, and finish as usual", ge=1, le=COUNTLESS,
        resumable=True
    )
    max_minutes: float | None = Key(
        None, "stop after this many minutes of training, and finish as usual", gt=0, le=MANY, resumable=True
    )
    max_tokens: int = Key(
        4096, "maximum number of source tokens, and of target tokens, in a forward pass on a device, including "
        "padding", ge=1, le=MANY
    )
    max_sentences: int | None = Key(None, "maximum number of pairs in a forward pass", ge=1, le=MANY)
    gradient_accumulation_steps: int = Key(1, "forward passes per optimizer step, on each device", ge=1, le=1_000_000)
    lr_scheduler_type: str = Key(
        "paper", "learning rate schedule; 'paper' is equation 3 of the paper", choices=SCHEDULES
    )
    learning_rate: float | None = Key(
        None, "peak learning rate, such as 0.001; for schedule 'paper', a factor on equation 3, 1 by default", gt=0,
        le=1_000_000
    )
    warmup_steps: int = Key(4000, "steps of linear warm-up; 0 for none", ge=0, le=COUNTLESS)
    optim: Literal["adam", "adam_8bit", "muon"] = Key(
        "adam", "optimizer; adam_8bit: Adam with its two means in 8 bits, a quarter of their memory (torchao); muon: "
        "Muon for the matrices of hidden layers and Adam for all other parameters, at the same rate"
    )
    adam_beta1: float = Key(0.9, "decay of Adam's mean of gradients", ge=0, lt=1)
    adam_beta2: float = Key(0.98, "decay of Adam's mean of squared gradients", ge=0, lt=1)
    adam_epsilon: float = Key(1e-9, "Adam's epsilon", gt=0, le=1)
    weight_decay: float = Key(0.0, "decoupled weight decay (AdamW, Muon), on matrices", ge=0, le=1000)
    max_grad_norm: float | None = Key(None, "clip the gradient norm to this value", gt=0, le=COUNTLESS)
    r_drop: float = Key(
        0.0, "weight α of R-Drop, which pulls the outputs under two dropout masks together", ge=0, le=1000
    )
    guided_alignment: float = Key(
        0.0, "weight of a second loss, such as 0.05, that makes one head of the cross-attention align words, as they "
        "are aligned in the training text by IBM model 1; 0 for none", ge=0, le=1000
    )
    distill_from: str | list[str] | None = Key(
        None, "model whose distributions over the next token are learned as well as the labels (word-level "
        "distillation), by folder or Hub id; a list: the mean of several. Its vocabulary must be the run's"
    )
    distill_weight: float | None = Key(
        None, "share of the loss that compares with distill_from, 0.5 by default; the rest compares with the labels",
        gt=0, le=1
    )
    distill_top_k: int | None = Key(
        None, "of distill_from's distributions, learn only this many most probable tokens, computed once before the "
        "first step instead of in each step", ge=1, le=COUNTLESS
    )
    ema_decay: float | None = Key(
        None, "decay of an exponential moving average of the weights, used for translation: 0.999", ge=0, lt=1
    )
    mixed_precision: Literal["auto", "no", "bf16", "fp16"] = Key(
        "auto", "precision of forward and backward passes; auto: the setting of accelerate launch, or of the run "
        "being resumed, or bf16 if the GPU supports it or the CPU is measured to be faster with it"
    )
    torch_compile: bool = Key(False, "compile the model with torch.compile")
    cpu_threads: int | None = Key(
        None, "threads of each process on a CPU; default: an equal share of the cores", ge=1, le=MOST_PROCESSES,
        resumable=True, private=True
    )
    gradient_checkpointing: bool = Key(False, "recompute activations in the backward pass to save memory")
    logging_steps: int = Key(50, "steps between lines of the log", ge=1, le=COUNTLESS, resumable=True)
    report_to: list[str] = Key(
        [], "also log to tensorboard, wandb, trackio or another of Accelerate's trackers", resumable=True, private=True
    )
    eval_steps: int = Key(500, "steps between validations", ge=1, le=COUNTLESS, resumable=True)
    eval_sentences: int = Key(
        200, "validation sentences translated for BLEU and chrF, greedily; 0 for none", ge=0, le=COUNTLESS,
        resumable=True
    )
    metric_for_best_model: str = Key(
        "loss", "validation metric of the best weights: loss, bleu or chrf; with several directions, their mean, or "
        "that of one of them: es-gn_chrf"
    )
    early_stopping_patience: int | None = Key(
        None, "stop after this many validations without improvement of metric_for_best_model", ge=1, le=COUNTLESS,
        resumable=True
    )
    save_steps: int = Key(500, "steps between checkpoints", ge=1, le=COUNTLESS, resumable=True)
    save_total_limit: int = Key(5, "latest checkpoints to keep", ge=1, le=COUNTLESS, resumable=True)
    keep_best: int = Key(
        1, "best weights in validation to keep, and to average; 0 for none", ge=0, le=COUNTLESS, resumable=True
    )
    average: Literal["auto", "last", "best"] = Key(
        "auto", "the final model: the mean of the last checkpoints (section 6.1), or of the best weights; auto: of "
        "these, the last checkpoint alone, and the single best weights, those with the lowest validation loss; "
        "default with average_last: last", resumable=True
    )
    average_last: int = Key(
        5, "how many of the last checkpoints to average; 1 for the last one alone", ge=1, le=COUNTLESS, resumable=True
    )
    shortlist: bool = Key(
        False, "at the end, learn from the training text which target tokens each source token may become: exports to "
        "CTranslate2 choose among these only, which is faster, with nearly the same translations", resumable=True
    )
    license: str | None = Key(None, "license of the model, by its Hub identifier: apache-2.0", resumable=True)
    push_to_hub: bool = Key(
        False, "upload the model to the Hub, with the token from hf auth login or HF_TOKEN", resumable=True,
        private=True
    )
    hub_model_id: str | None = Key(
        None, "repository to upload to: you/de-en, or de-en in your own namespace; default: the name of output_dir",
        resumable=True, private=True
    )
    hub_private_repo: bool | None = Key(
        None, "whether a new repository is private; default: as set for the account or organization", resumable=True,
        private=True
    )
    hub_strategy: Literal["end", "every_save", "checkpoint"] = Key(
        "every_save", "what to upload, and when: end: the finished model; every_save: also the model at each "
        "checkpoint; checkpoint: also the run itself, in last-checkpoint/, for hf-vaswani pull", resumable=True,
        private=True
    )
    hub_revision: str | None = Key(
        None, "branch to upload to, created if missing; default: main", resumable=True, private=True
    )
    overwrite: bool = Key(False, "delete an earlier run in output_dir and start over", resumable=True, private=True)

    def model_post_init(self, context: object) -> None:
        if self.learning_rate is None:
            self.learning_rate = SCHEDULES[self.lr_scheduler_type].default_peak
        if isinstance(self.distill_from, str):
            self.distill_from = [self.distill_from]
        if self.distill_from and self.distill_weight is None:
            self.distill_weight = 0.5

    @property
    def teachers(self) -> list[str]:
        """The models of `distill_from`."""
        return list(self.distill_from or [])

    # fmt: on
    def validate(self) -> list[str]:
        """Errors for keys of this section that conflict."""
        errors = []
        if not self.output_dir:
            errors.append("training.output_dir is missing: the folder for checkpoints and the final model")
        if SCHEDULES[self.lr_scheduler_type].needs_warmup and self.warmup_steps == 0:
            errors.append(f"training.warmup_steps must be at least 1 for schedule {self.lr_scheduler_type!r}, got 0")
        if self.learning_rate is None:
            errors.append(
                f"training.learning_rate is missing: the peak of schedule {self.lr_scheduler_type!r}, "
                "such as 0.001 (for fine-tuning, 0.0001)"
            )
        errors += self._end_errors()
        if self.average != "best" and self.average_last > self.save_total_limit:
            errors.append(
                f"training.average_last={self.average_last} needs that many checkpoints, "
                f"but training.save_total_limit={self.save_total_limit}"
            )
        if self.average == "best" and not self.keep_best:
            errors.append("training.average='best' needs kept weights, but training.keep_best=0")
        if self.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self.license):
            errors.append(
                f"training.license={self.license!r} is not a Hub license identifier (apache-2.0, cc-by-4.0, "
                "other). See https://huggingface.co/docs/hub/repositories-licenses"
            )
        if self.metric_for_best_model.rpartition("_")[2] not in METRICS:
            errors.append(
                f"training.metric_for_best_model must be one of {', '.join(METRICS)}, got "
                f"{self.metric_for_best_model!r}"
            )
        elif not self.metric_for_best_model.endswith("loss") and not self.eval_sentences:
            errors.append(
                f"training.metric_for_best_model={self.metric_for_best_model!r} needs translations of the validation "
                "text, but training.eval_sentences=0"
            )
        for key in ("distill_weight", "distill_top_k"):
            if (value := getattr(self, key)) is not None and not self.teachers:
                errors.append(f"training.{key}={value} has no effect without training.distill_from: remove it")
        if self.teachers and self.r_drop:
            errors.append(
                f"training.r_drop={self.r_drop} and training.distill_from={self.teachers[0]} are both given; choose "
                "one"
            )
        if self.keep_languages and not self.start_from:
            errors.append(f"training.keep_languages={self.keep_languages} needs a model to cut: training.start_from")
        if bool(self.add_language) != bool(self.like):
            given, other = ("add_language", "like") if self.add_language else ("like", "add_language")
            errors.append(f"training.{given}={getattr(self, given)!r} needs training.{other}")
        if self.add_language and not self.start_from:
            errors.append(f"training.add_language={self.add_language!r} needs a model: training.start_from")
        if self.guided_alignment and self.torch_compile:
            errors.append(
                f"training.guided_alignment={self.guided_alignment} does not work with training.torch_compile=True: "
                "choose one"
            )
        return errors

    def _end_errors(self) -> list[str]:
        """Conflicts about when the run ends, and about schedules that decay until then."""
        name, last, epochs = self.lr_scheduler_type, self.max_steps, self.num_train_epochs
        if not SCHEDULES[name].falls_to_end:
            if last is epochs is self.max_minutes is None:
                return [
                    "nothing ends the run: set training.max_steps, training.num_train_epochs or "
                    "training.max_minutes"
                ]
            return []
        errors = []
        if last is None:
            errors.append(f"training.max_steps is missing: schedule {name!r} decays to 0 there")
        elif last <= max(self.warmup_steps, 1):
            errors.append(
                f"training.warmup_steps={self.warmup_steps} leaves no steps of training.max_steps={last} for "
                f"schedule {name!r} to decay: lower the former or raise the latter"
            )
        if epochs is not None:
            errors.append(
                f"training.num_train_epochs={epochs} contradicts schedule {name!r}, which decays to 0 at "
                "training.max_steps: remove it, or choose another schedule"
            )
        return errors
    # fmt: off


def hub_keys_given(arguments: TrainingArguments) -> list[str]:
    """The keys about uploads to the Hub that differ from their defaults."""
    keys = TrainingArguments.model_fields
    return [name for name in HUB_KEYS if getattr(arguments, name) != keys[name].default]


class PeftArguments(Section):
    """A LoRA adapter to train on a frozen model, with PEFT's names; without `r`, there is none."""

    section = "peft"

    r: int | None = Key(None, "rank of the adapter's matrices, such as 8", ge=1, le=65_536)
    lora_alpha: int = Key(8, "scale of the adapter: its product is multiplied by lora_alpha / r", ge=1, le=1_000_000)
    lora_dropout: float = Key(0.0, "dropout of the adapter's input", ge=0, lt=1)
    target_modules: list[str] = Key(
        [ALL_LINEAR], "modules that get an adapter, by name: [q_proj, v_proj]; all-linear: all linear layers inside "
        "the stacks"
    )
    bias: Literal["none", "all", "lora_only"] = Key(
        "none", "biases to train as well; lora_only: those of the modules with an adapter"
    )
    use_rslora: bool = Key(False, "divide lora_alpha by the square root of r instead, for high ranks (rsLoRA)")
    use_dora: bool = Key(False, "also train the magnitude of each column of the weights (DoRA); slower")
    modules_to_save: list[str] = Key(
        [], "modules to train and save in full, by name: [embed_tokens], [final_layer_norm]"
    )
    merge: bool = Key(
        False, "save an ordinary model with the adapter merged into its weights, instead of the adapter alone",
        resumable=True
    )

    @property
    def is_used(self) -> bool:
        """Whether an adapter is trained."""
        return self.r is not None

    @property
    def targets(self) -> str | list[str]:
        """`target_modules` in the form that PEFT accepts."""
        return ALL_LINEAR if self.target_modules == [ALL_LINEAR] else self.target_modules


class GenerationArguments(Section):
    """How the trained model translates, stored in its `generation_config.json` (section 6.1)."""

    section = "generation"

    num_beams: int = Key(4, "number of beams; 1 is greedy search", ge=1, le=LARGEST_BEAM, resumable=True)
    length_penalty: float = Key(
        0.6, "exponent α of the length penalty, which divides a hypothesis's log-probability", ge=-LARGEST_PENALTY,
        le=LARGEST_PENALTY, resumable=True
    )
    length_penalty_type: Literal["gnmt", "length"] = Key(
        "gnmt", "the penalty: ((5 + length) / 6)^α as in the paper, or length^α as in transformers", resumable=True
    )
    early_stopping: bool = Key(
        False, "stop a sentence at num_beams finished hypotheses, as fairseq does, which may miss the best one; "
        "false: when no other hypothesis would beat them if it ended now, as transformers does by default",
        resumable=True
    )
    max_length_offset: int = Key(
        50, "how many tokens longer than its source a translation may be", ge=1, le=LARGEST_OFFSET, resumable=True
    )


class EvaluationArguments(Section):
    """How the model is evaluated, in validation and at the end, and which figures are drawn."""

    section = "evaluation"

    tokenize: str | None = Key(
        None, "sacreBLEU's tokenizer for BLEU: 13a, zh, char, intl, …; none for tokenized text; default: that of the "
        "target language", resumable=True
    )
    greedy: bool = Key(False, "also score the test sets with greedy search", resumable=True)
    mbr: Literal["chrf", "bleu"] | None = Key(
        None, "also score the test sets with minimum Bayes risk decoding, with this utility", resumable=True
    )
    samples: int = Key(32, "number of candidates for mbr", ge=2, le=MOST_SAMPLES, resumable=True)
    rerank_with: str | None = Key(
        None, "also score the test sets with noisy-channel reranking by this model of the other direction, a folder "
        "or Hub id", resumable=True
    )
    compare_with: str | list[str] | None = Key(
        None, "also compare the final model in speed, size and scores with this one, such as the teacher whose "
        "translations it learned from, by folder or Hub id; a list is an ensemble", resumable=True
    )
    rerank_beams: int = Key(
        16, "number of beams whose translations rerank_with sorts", ge=2, le=LARGEST_BEAM, resumable=True
    )
    rerank_length_penalty: float | None = Key(
        None, "exponent of the length penalty of this search; default: generation.length_penalty", ge=-LARGEST_PENALTY,
        le=LARGEST_PENALTY, resumable=True
    )
    glossary: str | None = Key(
        None, "also score the test sets as translated with the terms of this file, and count how many of them the "
        "translations have", is_path=True, resumable=True
    )
    confidence: bool = Key(
        False, "calibrate the model's confidence in its translations on the validation set, up to 2,000 pairs of it",
        resumable=True
    )
    attention: int = Key(
        0, "number of test sentences (without a test set: validation sentences) whose attention is drawn", ge=0,
        le=1_000_000, resumable=True
    )
    attention_layers: Literal["mean", "all"] = Key(
        "mean", "these figures: the mean of all layers and heads, or one figure per layer with all its heads",
        resumable=True
    )

    @property
    def compared(self) -> list[str]:
        """The models of `compare_with`."""
        return [self.compare_with] if isinstance(self.compare_with, str) else self.compare_with or []
