"""Contradictions between keys of a recipe whose values are valid individually."""

import re
from typing import Any

from ...configuration.keys import Keys
from ...core.configuration_vaswani import VaswaniConfig
from ...data.augmentation.arguments import AugmentationArguments
from ...data.tokenizers.arguments import TokenizerArguments, tokenizer_errors
from ...errors import reason
from ..schedule import SCHEDULES
from .arguments import OWN, REVERSED, SPLITS, DataArguments, PeftArguments, TrainingArguments, text_keys

# In bytes: file names have at most 255, and contain more than the name of the test set.
LONGEST_TEST_NAME = 100


def violations(
    data: DataArguments,
    tokenizer: TokenizerArguments,
    augmentation: AugmentationArguments,
    model: Keys,
    training: TrainingArguments,
    peft: PeftArguments,
) -> list[str]:
    """All contradictions in a recipe, one line each."""
    errors = _data_errors(data, training) + tokenizer_errors(tokenizer) + _training_errors(training)
    changing = {"data.streaming": data.streaming, "tokenizer.bpe_dropout": tokenizer.bpe_dropout}
    changing |= {f"augmentation.{name}": share for name, share in augmentation.shares.items()}
    changing = {key: value for key, value in changing.items() if value}
    errors += _augmentation_errors(tokenizer, augmentation, training)
    errors += _distillation_errors(tokenizer, training, changing)
    if training.guided_alignment and training.torch_compile:
        errors.append(
            f"training.guided_alignment={training.guided_alignment} does not work with training.torch_compile=True: "
            "choose one"
        )
    return errors + _peft_errors(peft, training) + _model_errors(data, tokenizer, model, training)


def _data_errors(data: DataArguments, training: TrainingArguments) -> list[str]:
    errors = []
    given = {split: _given(data, split) for split in SPLITS}
    if data.dataset and any(given.values()):
        names = ", ".join(f"data.{name}" for names in given.values() for name in names)
        errors.append(f"data.dataset={data.dataset!r} and {names} are both given; choose one")
    for split, names in given.items():
        sides = [f"{split}_source", f"{split}_target"]
        share = f", or data.{split}_share: 0.05, to hold out that share of the training pairs" * (split != "train")
        is_missing = not names and split != "test" and getattr(data, f"{split}_share", None) is None
        if split in names and len(names) > 1:
            errors.append(f"data.{split} and data.{names[1]} are both given; choose one")
        elif len(names) == 1 and split not in names:
            [missing] = set(sides) - set(names)
            errors.append(f"data.{missing} is missing: the path of a text file")
        elif is_missing and not data.dataset:
            others = f"data.dataset: built-in, or data.{split}: a file with both sides{share}"
            errors += [f"data.{name} is missing: the path of a text file (or {others})" for name in sides]
        elif is_missing and getattr(data, f"{split}_split") is None:
            errors.append(f"data.{split}_split is missing: the split of the dataset{share}")
    errors += _test_name_errors(data) + _mixture_errors(data.text)
    if data.streaming and (data.max_length or 0) > training.max_tokens:
        errors.append(
            f"data.max_length={data.max_length} allows sentences that do not fit in a batch of training.max_tokens="
            f"{training.max_tokens}, and a stream cannot be checked in advance: lower the former or raise the latter"
        )
    if data.streaming and data.drop_duplicates:
        errors.append(
            "data.drop_duplicates has to remember all pairs, which data.streaming does not allow: choose one"
        )
    return errors + _share_errors(data) + _length_errors(data)


def _share_errors(data: DataArguments) -> list[str]:
    """Contradictions about pairs held out of the training text."""
    errors, shares = [], {}
    for split in SPLITS[1:]:
        name = f"{split}_share"
        share = getattr(data, name)
        if share is None:
            continue
        shares[name] = share
        others = _given(data, split) + [f"{split}_split"] * bool(data.dataset and getattr(data, f"{split}_split"))
        if others:
            names = " and ".join(f"data.{other}={getattr(data, other)!r}" for other in others)
            errors.append(f"data.{name}={share} holds out a {split} set, but one is also given by {names}: choose one")
    entries = data.train if isinstance(data.train, list) else [data.train]
    if shares and any(isinstance(entry, dict) and entry.get("reversed") for entry in entries):
        errors.append(
            f"data.train: a source with reversed: true cannot be combined with data.{next(iter(shares))}: its pairs "
            "might be held out in one direction only. Swap its source and target instead"
        )
    if all(0 < share < 1 for share in shares.values()) and sum(shares.values()) >= 1:
        errors.append(f"data.{' and data.'.join(shares)} leave nothing to train on: their sum must be below 1")
    return errors


def _length_errors(data: DataArguments) -> list[str]:
    """Contradictions about the length limit of training pairs."""
    if (data.max_length is None) == (data.max_length_coverage is None):
        return ["set one of data.max_length, a number of tokens, and data.max_length_coverage, a share of the pairs"]
    if data.max_length_coverage is not None and data.streaming:
        return ["data.max_length_coverage needs the lengths of all pairs, unlike data.streaming: set data.max_length"]
    return []


def _given(data: DataArguments, split: str) -> list[str]:
    return [name for name in text_keys(split) if getattr(data, name)]


def _test_name_errors(data: DataArguments) -> list[str]:
    """What is wrong with the names of test sets, which become file names and keys of the results."""
    return [
        f"data.tests: {name!r} cannot be the name of a test set: use letters and digits, with . _ - only in between, "
        f"at most {LONGEST_TEST_NAME} bytes, and not {', '.join(SPLITS)}"
        for name in map(str, data.tests)
        if not re.fullmatch(r"\w([\w.-]*\w)?", name) or len(name.encode()) > LONGEST_TEST_NAME or name in SPLITS
    ]


def _training_errors(training: TrainingArguments) -> list[str]:
    errors = []
    if not training.output_dir:
        errors.append("training.output_dir is missing: the folder for checkpoints and the final model")
    if SCHEDULES[training.lr_scheduler_type].needs_warmup and training.warmup_steps == 0:
        errors.append(f"training.warmup_steps must be at least 1 for schedule {training.lr_scheduler_type!r}, got 0")
    if training.learning_rate is None:
        errors.append(
            f"training.learning_rate is missing: the peak of schedule {training.lr_scheduler_type!r}, "
            "such as 0.001 (for fine-tuning, 0.0001)"
        )
    errors += _end_errors(training)
    if training.average != "best" and training.average_last > training.save_total_limit:
        errors.append(
            f"training.average_last={training.average_last} needs that many checkpoints, "
            f"but training.save_total_limit={training.save_total_limit}"
        )
    if training.average == "best" and not training.keep_best:
        errors.append("training.average='best' needs kept weights, but training.keep_best=0")
    if training.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", training.license):
        errors.append(
            f"training.license={training.license!r} is not a Hub license identifier (apache-2.0, cc-by-4.0, "
            "other). See https://huggingface.co/docs/hub/repositories-licenses"
        )
    if training.metric_for_best_model != "loss" and not training.eval_sentences:
        errors.append(
            f"training.metric_for_best_model={training.metric_for_best_model!r} needs translations of the validation "
            "text, but training.eval_sentences=0"
        )
    return errors


def _peft_errors(peft: PeftArguments, training: TrainingArguments) -> list[str]:
    """Contradictions between an adapter and the rest of the run."""
    errors = []
    if peft.is_used and not training.start_from:
        errors.append(f"peft.r={peft.r} needs a model to fine-tune: training.start_from")
    if peft.is_used and training.freeze:
        errors.append(
            f"training.freeze={training.freeze} has no effect with peft.r={peft.r}, which freezes the whole model: "
            "remove it, and choose modules with peft.target_modules"
        )
    return errors


def _augmentation_errors(
    tokenizer: TokenizerArguments, augmentation: AugmentationArguments, training: TrainingArguments
) -> list[str]:
    """Conflicts between augmentation and the rest of the run."""
    if augmentation.glossary and not augmentation.terms:
        return [f"augmentation.glossary={augmentation.glossary} has no effect without augmentation.terms: remove it"]
    if tokenizer.path or training.start_from:
        return []  # checked when that tokenizer is read
    return [
        f"tokenizer.{name}={size} has no room for the {len(markers)} tokens of augmentation: raise it"
        for name, markers in zip(("vocab_size", "target_vocab_size"), augmentation.markers)
        if (size := getattr(tokenizer, name)) and size < 2 * len(markers)
    ]


def _distillation_errors(tokenizer: TokenizerArguments, training: TrainingArguments, changing: Keys) -> list[str]:
    """Conflicts between word-level distillation and the rest of the run.

    Args:
        changing: the keys because of which text is tokenized again in each epoch.
    """
    teachers, errors = training.teachers, []
    for key in ("distill_weight", "distill_top_k"):
        if (value := getattr(training, key)) is not None and not teachers:
            errors.append(f"training.{key}={value} has no effect without training.distill_from: remove it")
    errors += [
        f"training.distill_top_k={training.distill_top_k} needs text that is tokenized once, but {key}={value} "
        "tokenizes it again in each epoch: choose one"
        for key, value in changing.items()
        if training.distill_top_k
    ]
    if teachers and training.r_drop:
        errors.append(
            f"training.r_drop={training.r_drop} and training.distill_from={teachers[0]} are both given; choose one"
        )
    if teachers and not (tokenizer.path or training.start_from):
        errors.append(
            f"training.distill_from={teachers[0]} needs a run with the same vocabulary: set tokenizer.path="
            f"{teachers[0]}, or start from a model that has it (training.start_from)"
        )
    return errors


def _end_errors(training: TrainingArguments) -> list[str]:
    """Contradictions about when the run ends, and about schedules that decay until then."""
    name, last, epochs = training.lr_scheduler_type, training.max_steps, training.num_train_epochs
    if not SCHEDULES[name].falls_to_end:
        if last is epochs is training.max_minutes is None:
            return ["nothing ends the run: set training.max_steps, training.num_train_epochs or training.max_minutes"]
        return []
    errors = []
    if last is None:
        errors.append(f"training.max_steps is missing: schedule {name!r} decays to 0 there")
    elif last <= max(training.warmup_steps, 1):
        errors.append(
            f"training.warmup_steps={training.warmup_steps} leaves no steps of training.max_steps={last} for "
            f"schedule {name!r} to decay: lower the former or raise the latter"
        )
    if epochs is not None:
        errors.append(
            f"training.num_train_epochs={epochs} contradicts schedule {name!r}, which decays to 0 at "
            "training.max_steps: remove it, or choose another schedule"
        )
    return errors


def _model_errors(
    data: DataArguments, tokenizer: TokenizerArguments, model: Keys, training: TrainingArguments
) -> list[str]:
    if training.start_from:
        return []  # checked when that model is read
    if not tokenizer.joint and model.get("share_encoder_decoder_embeddings"):
        return ["tokenizer.joint=False contradicts model.share_encoder_decoder_embeddings=True: choose one"]
    try:
        config = VaswaniConfig(**model)
    except Exception as error:  # whatever the strict dataclass raises, the recipe is invalid
        return [f"model: {reason(error)}"]
    limit = config.longest_sequence
    if limit and (data.max_length or 0) > limit:
        return [
            f"data.max_length={data.max_length} exceeds model.max_position_embeddings={limit}, the number of learned "
            "positions; lower the former or raise the latter"
        ]
    return []


def _mixture_errors(text: Keys | list[Any] | None) -> list[str]:
    """What is wrong with `data.text`."""
    if text is None:
        return []
    if not text or not all(isinstance(name, str) for name in text):
        return [f"data.text must name at least one text, {OWN}, {REVERSED}, or a file of pairs; got {text!r}"]
    errors = []
    if isinstance(text, dict):
        errors += [
            f"data.text: the weight of {name} must be a number above 0, got {weight!r}"
            for name, weight in text.items()
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0
        ]
    elif len(set(text)) < len(text):
        errors.append("data.text lists a text twice; to count one more often, give weights: {own: 2, …}")
    if set(text) == {REVERSED}:
        errors.append("data.text: reversed alone is the opposite direction; to train it, set data.reversed: true")
    return errors
