"""The keys of a recipe, section by section, each with its default and its meaning; help and checks come from them."""

from dataclasses import dataclass
from typing import Literal

from ...core.generation_settings import LARGEST_BEAM, LARGEST_OFFSET, LARGEST_PENALTY
from ...data.tokenizers.arguments import COUNTLESS, key

SPLITS = ("train", "validation", "test")
# What results call the test set of `data.test`, `data.test_source` or `data.test_split`.
MAIN_TEST = "test"
# Beyond these a number is a slip. Tokens of a sentence; threads and processes of a machine; of what fills memory.
LONGEST, MOST_PROCESSES, MANY = 1_000_000, 1024, 1_000_000_000
# A path, the fields of a `TextSource`, or a list of either, to be mixed.
Sources = str | dict | list | None


@dataclass
class DataArguments:
    """Where the parallel text comes from, and what is left out of it."""

    dataset: str | None = key(
        None, "Hub id or folder of a dataset; 'built-in': the synthetic German–English corpus made by this package"
    )
    dataset_config: str | None = key(None, "configuration of the dataset: de-en")
    dataset_revision: str | None = key(None, "commit or branch of the dataset on the Hub")
    train_split: str = key("train", "split to train on, slices allowed: train[1%:]")
    validation_split: str | None = key("validation", "split to validate on: train[:1%]; null with validation_share")
    test_split: str | None = key("test", "split to test on; null for none, and with test_share")
    source_language: str | None = key(None, "code of the source language: de; chooses columns, stands in the card")
    target_language: str | None = key(None, "code of the target language")
    source_column: str | None = key(None, "column of source text; default: 'translation', the language, or 'source'")
    target_column: str | None = key(None, "column of target text")
    header: bool | None = key(
        None, "whether .tsv and .csv files begin with a row of names; default: seen from that row"
    )
    train: Sources = key(
        None, "file with both sides (.tsv .csv .jsonl .parquet, also .gz .zst), or sources to mix; see README.md"
    )
    validation: Sources = key(None, "the same, to validate on")
    test: Sources = key(None, "the same, to test on; optional")
    train_source: str | None = key(None, "file of training sentences, one a line; also .gz .zst")
    train_target: str | None = key(None, "file of their translations, line by line")
    validation_source: str | None = key(None, "file of validation sentences")
    validation_target: str | None = key(None, "file of their translations")
    test_source: str | None = key(None, "file of test sentences, optional")
    test_target: str | None = key(None, "file of their translations")
    tests: dict = key(
        {},
        "more test sets by name, each given as test is: {test_2017: {source: a.de, target: a.en}}; scored at the end",
    )
    validation_share: float | None = key(
        None, "hold out this share of the training pairs, at random, to validate on", above=0, below=1
    )
    test_share: float | None = key(
        None, "hold out this share of the training pairs, at random, to test on", above=0, below=1
    )
    split_seed: int = key(
        1, "random seed of what is held out; training.seed has no influence on it", least=0, below=2**32
    )
    streaming: bool = key(False, "read training text as it is needed, for what fits neither memory nor disk")
    stream_part: int = key(
        100_000, "pairs of a stream held in memory, in which order is random and batches form", least=1, most=MANY
    )
    max_length: int | None = key(256, "training pairs with more tokens on a side are left out", least=1, most=LONGEST)
    max_length_coverage: float | None = key(
        None,
        "in place of max_length: the length that this share of the training pairs has at most, on both sides",
        above=0,
        most=1,
    )
    max_length_ratio: float | None = key(
        None, "leave out training pairs with a side this many times as long, in tokens", least=1, most=LONGEST
    )
    drop_duplicates: bool = key(False, "leave out training pairs that came before")
    drop_copies: bool = key(False, "leave out training pairs whose target is the source")
    drop_control_characters: bool = key(False, "leave out training pairs with control characters")
    num_proc: int | None = key(
        None,
        "processes that tokenize; default: one per core, for more than 100 000 pairs",
        least=1,
        most=MOST_PROCESSES,
    )
    name: str | None = key(None, "what the text is called, for the model card: Multi30k")
    license: str | None = key(None, "license of the text, for the model card: CC BY 2.0 FR")
    cache_dir: str | None = key(None, "folder of prepared text; default: $HF_VASWANI_CACHE or Hugging Face's cache")


@dataclass
class TrainingArguments:
    """Optimization (section 5.3 of the paper), length of the run, checkpoints."""

    output_dir: str | None = key(None, "folder of checkpoints, log and final model")
    start_from: str | None = key(
        None, "fine-tune: model and tokenizer to begin with; folder, Hub id or another system's checkpoint"
    )
    freeze: list[str] = key([], "parameters that stay as they are, by the beginning of their names: [model.encoder]")
    seed: int = key(1, "random seed of initialization, order and dropout", least=0, below=2**32)
    max_steps: int | None = key(
        100_000, "optimizer steps; null where num_train_epochs or max_minutes end the run", least=1, most=COUNTLESS
    )
    num_train_epochs: int | None = key(
        None, "stop after this many passes over the training text, and finish as usual", least=1, most=COUNTLESS
    )
    max_minutes: float | None = key(
        None, "stop after this many minutes of training, and finish as usual", above=0, most=MANY
    )
    max_tokens: int = key(
        4096, "tokens of padded source, and of padded target, in a forward pass on a device", least=1, most=MANY
    )
    max_sentences: int | None = key(None, "most pairs in a forward pass", least=1, most=MANY)
    gradient_accumulation_steps: int = key(1, "forward passes per update, on each device", least=1, most=1_000_000)
    lr_scheduler_type: Literal["paper", "inverse_sqrt", "linear", "cosine", "constant"] = key(
        "paper", "schedule of the learning rate; 'paper' is the paper's equation 3"
    )
    learning_rate: float | None = key(
        None,
        "highest rate, such as 0.001; for schedule 'paper', a factor on equation 3, 1 by default",
        above=0,
        most=1_000_000,
    )
    warmup_steps: int = key(4000, "updates of linear warm-up; 0 for none", least=0, most=COUNTLESS)
    adam_beta1: float = key(0.9, "decay of Adam's mean of gradients", least=0, below=1)
    adam_beta2: float = key(0.98, "decay of Adam's mean of squared gradients", least=0, below=1)
    adam_epsilon: float = key(1e-9, "Adam's epsilon", above=0, most=1)
    weight_decay: float = key(0.0, "decoupled weight decay (AdamW), on matrices", least=0, most=1000)
    max_grad_norm: float | None = key(None, "clip the gradient to this norm", above=0, most=COUNTLESS)
    r_drop: float = key(
        0.0, "weight alpha of R-Drop: each pair twice, under two dropout masks that are to agree", least=0, most=1000
    )
    r_drop_from: int = key(
        1, "first update with R-Drop; those before it see each pair once, in half the time", least=1, most=COUNTLESS
    )
    ema_decay: float | None = key(None, "translate with a moving average of the weights: 0.999", least=0, below=1)
    max_skipped_steps: int = key(
        20, "updates in a row with a gradient that is not finite, before the run stops", least=1, most=COUNTLESS
    )
    mixed_precision: Literal["no", "fp16", "bf16"] | None = key(
        None, "precision of forward and backward passes; default: what accelerate launch says"
    )
    torch_compile: bool = key(False, "compile the model with torch.compile")
    cpu_threads: int | None = key(
        None, "threads of each process on a CPU; default: the cores, shared fairly", least=1, most=MOST_PROCESSES
    )
    gradient_checkpointing: bool = key(False, "recompute activations in the backward pass to save memory")
    logging_steps: int = key(50, "updates between lines of the log", least=1, most=COUNTLESS)
    report_to: list[str] = key([], "also log to tensorboard, wandb, trackio or another of Accelerate's trackers")
    eval_steps: int = key(500, "updates between validations", least=1, most=COUNTLESS)
    eval_sentences: int = key(
        200, "validation sentences translated for BLEU and chrF, greedily; 0 for none", least=0, most=COUNTLESS
    )
    metric_for_best_model: Literal["loss", "bleu", "chrf"] = key("loss", "validation measure of the best weights")
    early_stopping_patience: int | None = key(
        None, "stop after this many validations without a better metric_for_best_model", least=1, most=COUNTLESS
    )
    save_steps: int = key(500, "updates between checkpoints", least=1, most=COUNTLESS)
    save_total_limit: int = key(5, "checkpoints kept", least=1, most=COUNTLESS)
    keep_best: int = key(1, "weights kept that were best in validation; 0 for none", least=0, most=COUNTLESS)
    average: Literal["auto", "last", "best", "none"] = key(
        "auto",
        "the final model: the mean of the last checkpoints (section 6.1), of the best weights, or the last checkpoint "
        "alone; auto: of these and the best weights alone, what has the lowest validation loss. Where it is left out, "
        "average_last or average_best, if given, says which",
    )
    average_last: int = key(5, "checkpoints in the mean of the last", least=1, most=COUNTLESS)
    average_best: int | None = key(
        None, "weights in the mean of the best; default: all that are kept", least=1, most=COUNTLESS
    )
    license: str | None = key(None, "license of the model, by its identifier on the Hub: apache-2.0; default: none")
    overwrite: bool = key(False, "delete an earlier run in output_dir and start over")

    def __post_init__(self):
        if self.learning_rate is None and self.lr_scheduler_type == "paper":
            self.learning_rate = 1.0


@dataclass
class GenerationArguments:
    """How the trained model translates, stored in its `generation_config.json` (section 6.1)."""

    num_beams: int = key(4, "hypotheses followed at once; 1 is greedy search", least=1, most=LARGEST_BEAM)
    length_penalty: float = key(
        0.6,
        "exponent α of the length penalty, which divides a hypothesis' log-probability",
        least=-LARGEST_PENALTY,
        most=LARGEST_PENALTY,
    )
    length_penalty_type: Literal["gnmt", "length"] = key(
        "gnmt", "the penalty: ((5 + length) / 6)^α as in the paper, or length^α as in transformers"
    )
    early_stopping: bool = key(
        False,
        "a sentence is done as soon as it has as many finished hypotheses as beams, as in fairseq; otherwise once no "
        "other would beat them",
    )
    max_length_offset: int = key(
        50, "translations may have this many tokens more than their source", least=1, most=LARGEST_OFFSET
    )


@dataclass
class EvaluationArguments:
    """How the model is measured, in validation and at the end, and what is drawn then."""

    tokenize: str = key("13a", "sacreBLEU's tokenizer for BLEU: 13a, zh, char, intl, …; none: of tokenized text")
    greedy: bool = key(False, "score the test sets with greedy search as well")
    attention: int = key(
        0,
        "test sentences (without a test set: validation sentences) whose attention is drawn",
        least=0,
        most=1_000_000,
    )
    attention_layers: Literal["mean", "all"] = key(
        "mean", "of these pictures: the mean of all layers and heads, or one for each layer with all its heads"
    )
