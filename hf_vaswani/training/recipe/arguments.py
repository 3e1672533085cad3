"""The keys of a recipe, section by section, each with its default and its meaning; help and checks come from them."""

from typing import Any, Literal

from ...configuration.keys import COUNTLESS, Key, Section
from ...core.generation_settings import LARGEST_BEAM, LARGEST_OFFSET, LARGEST_PENALTY
from ..optimization.schedule import SCHEDULES

SPLITS = ("train", "validation", "test")
# What results call the test set of `data.test`, `data.test_source` or `data.test_split`.
MAIN_TEST = "test"
# Beyond these a number is a slip. Tokens of a sentence; threads and processes of a machine; of what fills memory.
LONGEST, MOST_PROCESSES, MANY = 1_000_000, 1024, 1_000_000_000
# A path, the fields of a `TextSource`, or a list of either, to be mixed.
Sources = str | dict | list | None


class DataArguments(Section):
    """Where the parallel text comes from, and what is left out of it."""

    section = "data"

    dataset: str | None = Key(
        None,
        "Hub id or folder of a dataset; 'built-in': the synthetic German–English corpus made by this package",
        resumable=True,
    )
    dataset_config: str | None = Key(None, "configuration of the dataset: de-en", resumable=True)
    dataset_revision: str | None = Key(None, "commit or branch of the dataset on the Hub", resumable=True)
    train_split: str = Key("train", "split to train on, slices allowed: train[1%:]", resumable=True)
    validation_split: str | None = Key(
        "validation", "split to validate on: train[:1%]; null with validation_share", resumable=True
    )
    test_split: str | None = Key("test", "split to test on; null for none, and with test_share", resumable=True)
    source_language: str | None = Key(None, "code of the source language: de; chooses columns, stands in the card")
    target_language: str | None = Key(None, "code of the target language")
    source_column: str | None = Key(
        None, "column of source text; default: 'translation', the language, or 'source'", resumable=True
    )
    target_column: str | None = Key(None, "column of target text", resumable=True)
    header: bool | None = Key(
        None, "whether .tsv and .csv files begin with a row of names; default: seen from that row", resumable=True
    )
    train: Sources = Key(
        None,
        "file with both sides (.tsv .csv .jsonl .parquet, also .gz .zst), or sources to mix; see docs/how_to/text.md",
        resumable=True,
        is_path=True,
    )
    validation: Sources = Key(None, "the same, to validate on", resumable=True, is_path=True)
    test: Sources = Key(None, "the same, to test on; optional", resumable=True, is_path=True)
    train_source: str | None = Key(
        None, "file of training sentences, one a line; also .gz .zst", resumable=True, is_path=True
    )
    train_target: str | None = Key(None, "file of their translations, line by line", resumable=True, is_path=True)
    validation_source: str | None = Key(None, "file of validation sentences", resumable=True, is_path=True)
    validation_target: str | None = Key(None, "file of their translations", resumable=True, is_path=True)
    test_source: str | None = Key(None, "file of test sentences, optional", resumable=True, is_path=True)
    test_target: str | None = Key(None, "file of their translations", resumable=True, is_path=True)
    tests: dict = Key(
        {},
        "more test sets by name, each given as test is: {test_2017: {source: a.de, target: a.en}}; scored at the end",
        resumable=True,
    )
    validation_share: float | None = Key(
        None, "hold out this share of the training pairs, at random, to validate on", gt=0, lt=1
    )
    test_share: float | None = Key(
        None, "hold out this share of the training pairs, at random, to test on", gt=0, lt=1
    )
    split_seed: int = Key(1, "random seed of what is held out; training.seed has no influence on it", ge=0, lt=2**32)
    streaming: bool = Key(False, "read training text as it is needed, for what fits neither memory nor disk")
    stream_part: int = Key(
        100_000, "pairs of a stream held in memory, in which order is random and batches form", ge=1, le=MANY
    )
    max_length: int | None = Key(256, "training pairs with more tokens on a side are left out", ge=1, le=LONGEST)
    max_length_coverage: float | None = Key(
        None,
        "in place of max_length: the length that this share of the training pairs has at most, on both sides",
        gt=0,
        le=1,
    )
    max_length_ratio: float | None = Key(
        None, "leave out training pairs with a side this many times as long, in tokens", ge=1, le=LONGEST
    )
    drop_duplicates: bool = Key(False, "leave out training pairs that came before")
    drop_copies: bool = Key(False, "leave out training pairs whose target is the source")
    drop_control_characters: bool = Key(False, "leave out training pairs with control characters")
    num_proc: int | None = Key(
        None,
        "processes that tokenize; default: one per core, for more than 100 000 pairs",
        ge=1,
        le=MOST_PROCESSES,
        resumable=True,
        private=True,
    )
    name: str | None = Key(None, "what the text is called, for the model card: Multi30k", resumable=True)
    license: str | None = Key(None, "license of the text, for the model card: CC BY 2.0 FR", resumable=True)
    cache_dir: str | None = Key(
        None,
        "folder of prepared text; default: $HF_VASWANI_CACHE or Hugging Face's cache",
        resumable=True,
        private=True,
    )


class TrainingArguments(Section):
    """Optimization (section 5.3 of the paper), length of the run, checkpoints."""

    section = "training"

    output_dir: str | None = Key(None, "folder of checkpoints, log and final model", resumable=True, private=True)
    start_from: str | None = Key(
        None, "fine-tune: model and tokenizer to begin with; folder, Hub id or another system's checkpoint"
    )
    freeze: list[str] = Key([], "parameters that stay as they are, by the beginning of their names: [model.encoder]")
    seed: int = Key(1, "random seed of initialization, order and dropout", ge=0, lt=2**32)
    max_steps: int | None = Key(
        100_000,
        "optimizer steps; null where num_train_epochs or max_minutes end the run",
        ge=1,
        le=COUNTLESS,
        resumable=True,
    )
    num_train_epochs: int | None = Key(
        None,
        "stop after this many passes over the training text, and finish as usual",
        ge=1,
        le=COUNTLESS,
        resumable=True,
    )
    max_minutes: float | None = Key(
        None, "stop after this many minutes of training, and finish as usual", gt=0, le=MANY, resumable=True
    )
    max_tokens: int = Key(
        4096, "tokens of padded source, and of padded target, in a forward pass on a device", ge=1, le=MANY
    )
    max_sentences: int | None = Key(None, "most pairs in a forward pass", ge=1, le=MANY)
    gradient_accumulation_steps: int = Key(1, "forward passes per update, on each device", ge=1, le=1_000_000)
    lr_scheduler_type: str = Key(
        "paper", "schedule of the learning rate; 'paper' is the paper's equation 3", choices=SCHEDULES
    )
    learning_rate: float | None = Key(
        None,
        "highest rate, such as 0.001; for schedule 'paper', a factor on equation 3, 1 by default",
        gt=0,
        le=1_000_000,
    )
    warmup_steps: int = Key(4000, "updates of linear warm-up; 0 for none", ge=0, le=COUNTLESS)
    adam_beta1: float = Key(0.9, "decay of Adam's mean of gradients", ge=0, lt=1)
    adam_beta2: float = Key(0.98, "decay of Adam's mean of squared gradients", ge=0, lt=1)
    adam_epsilon: float = Key(1e-9, "Adam's epsilon", gt=0, le=1)
    weight_decay: float = Key(0.0, "decoupled weight decay (AdamW), on matrices", ge=0, le=1000)
    max_grad_norm: float | None = Key(None, "clip the gradient to this norm", gt=0, le=COUNTLESS)
    r_drop: float = Key(
        0.0, "weight alpha of R-Drop: each pair twice, under two dropout masks that are to agree", ge=0, le=1000
    )
    r_drop_from: int = Key(
        1, "first update with R-Drop; those before it see each pair once, in half the time", ge=1, le=COUNTLESS
    )
    ema_decay: float | None = Key(None, "translate with a moving average of the weights: 0.999", ge=0, lt=1)
    max_skipped_steps: int = Key(
        20,
        "updates in a row with a gradient that is not finite, before the run stops",
        ge=1,
        le=COUNTLESS,
        resumable=True,
    )
    mixed_precision: Literal["no", "fp16", "bf16"] | None = Key(
        None, "precision of forward and backward passes; default: what accelerate launch says"
    )
    torch_compile: bool = Key(False, "compile the model with torch.compile")
    cpu_threads: int | None = Key(
        None,
        "threads of each process on a CPU; default: the cores, shared fairly",
        ge=1,
        le=MOST_PROCESSES,
        resumable=True,
        private=True,
    )
    gradient_checkpointing: bool = Key(False, "recompute activations in the backward pass to save memory")
    logging_steps: int = Key(50, "updates between lines of the log", ge=1, le=COUNTLESS, resumable=True)
    report_to: list[str] = Key(
        [], "also log to tensorboard, wandb, trackio or another of Accelerate's trackers", resumable=True
    )
    eval_steps: int = Key(500, "updates between validations", ge=1, le=COUNTLESS, resumable=True)
    eval_sentences: int = Key(
        200,
        "validation sentences translated for BLEU and chrF, greedily; 0 for none",
        ge=0,
        le=COUNTLESS,
        resumable=True,
    )
    metric_for_best_model: Literal["loss", "bleu", "chrf"] = Key("loss", "validation measure of the best weights")
    early_stopping_patience: int | None = Key(
        None,
        "stop after this many validations without a better metric_for_best_model",
        ge=1,
        le=COUNTLESS,
        resumable=True,
    )
    save_steps: int = Key(500, "updates between checkpoints", ge=1, le=COUNTLESS, resumable=True)
    save_total_limit: int = Key(5, "checkpoints kept", ge=1, le=COUNTLESS, resumable=True)
    keep_best: int = Key(
        1, "weights kept that were best in validation; 0 for none", ge=0, le=COUNTLESS, resumable=True
    )
    average: Literal["auto", "last", "best", "none"] = Key(
        "auto",
        "the final model: the mean of the last checkpoints (section 6.1), of the best weights, or the last checkpoint "
        "alone; auto: of these and the best weights alone, what has the lowest validation loss. Where it is left out, "
        "average_last or average_best, if given, says which",
        resumable=True,
    )
    average_last: int = Key(5, "checkpoints in the mean of the last", ge=1, le=COUNTLESS, resumable=True)
    average_best: int | None = Key(
        None, "weights in the mean of the best; default: all that are kept", ge=1, le=COUNTLESS, resumable=True
    )
    license: str | None = Key(
        None, "license of the model, by its identifier on the Hub: apache-2.0; default: none", resumable=True
    )
    overwrite: bool = Key(False, "delete an earlier run in output_dir and start over", resumable=True, private=True)

    def model_post_init(self, context: Any) -> None:
        if self.learning_rate is None:
            self.learning_rate = SCHEDULES[self.lr_scheduler_type].default_peak


class GenerationArguments(Section):
    """How the trained model translates, stored in its `generation_config.json` (section 6.1)."""

    section = "generation"

    num_beams: int = Key(4, "hypotheses followed at once; 1 is greedy search", ge=1, le=LARGEST_BEAM, resumable=True)
    length_penalty: float = Key(
        0.6,
        "exponent α of the length penalty, which divides a hypothesis' log-probability",
        ge=-LARGEST_PENALTY,
        le=LARGEST_PENALTY,
        resumable=True,
    )
    length_penalty_type: Literal["gnmt", "length"] = Key(
        "gnmt", "the penalty: ((5 + length) / 6)^α as in the paper, or length^α as in transformers", resumable=True
    )
    early_stopping: bool = Key(
        False,
        "a sentence is done as soon as it has as many finished hypotheses as beams, as in fairseq; otherwise once no "
        "other would beat them",
        resumable=True,
    )
    max_length_offset: int = Key(
        50, "translations may have this many tokens more than their source", ge=1, le=LARGEST_OFFSET, resumable=True
    )


class EvaluationArguments(Section):
    """How the model is measured, in validation and at the end, and what is drawn then."""

    section = "evaluation"

    tokenize: str = Key(
        "13a", "sacreBLEU's tokenizer for BLEU: 13a, zh, char, intl, …; none: of tokenized text", resumable=True
    )
    greedy: bool = Key(False, "score the test sets with greedy search as well", resumable=True)
    attention: int = Key(
        0,
        "test sentences (without a test set: validation sentences) whose attention is drawn",
        ge=0,
        le=1_000_000,
        resumable=True,
    )
    attention_layers: Literal["mean", "all"] = Key(
        "mean",
        "of these pictures: the mean of all layers and heads, or one for each layer with all its heads",
        resumable=True,
    )
