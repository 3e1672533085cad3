"""What is wrong between the keys of a recipe, or with a value that has the right type."""

import math
import re
from typing import Any

from ..configuration_vaswani import VaswaniConfig
from ..data.arguments import TokenizerArguments, tokenizer_faults
from .arguments import SPLITS, DataArguments, GenerationArguments, TrainingArguments

AT_LEAST_ONE = {
    "data": ("max_length", "stream_part", "processes"),
    "training": (
        "max_updates", "max_tokens", "max_sentences", "accumulation", "max_skipped_updates", "cpu_threads",
        "log_every", "validate_every", "patience", "save_every", "keep_last", "average_last", "average_best",
    ),
    "generation": ("num_beams", "max_length_offset"),
}  # fmt: skip
ABOVE_ZERO = ("learning_rate", "adam_eps", "max_minutes", "max_grad_norm")
# Keys of the training section with the bound that they must stay below; all are at least 0.
BELOW = {
    "weight_decay": math.inf, "r_drop": math.inf, "validate_sentences": math.inf, "keep_best": math.inf,
    "warmup_updates": math.inf, "seed": 2**32, "ema_decay": 1,
}  # fmt: skip


def contradictions(
    data: DataArguments,
    tokenizer: TokenizerArguments,
    model: dict[str, Any],
    training: TrainingArguments,
    generation: GenerationArguments,
) -> list[str]:
    """All faults of a recipe whose values have the right types, a line each. `model` is completed in place."""
    sections = {"data": data, "training": training, "generation": generation}
    faults = [
        f"{name}.{key} must be at least 1, got {value}"
        for name, keys in AT_LEAST_ONE.items()
        for key in keys
        if (value := getattr(sections[name], key)) is not None and value < 1
    ]
    faults += _of_data(data, training) + tokenizer_faults(tokenizer) + _of_training(training)
    return faults + _of_model(data, tokenizer, model, training)


def _of_data(data: DataArguments, training: TrainingArguments) -> list[str]:
    faults = []
    given = {split: _given(data, split) for split in SPLITS}
    if data.dataset and any(given.values()):
        names = ", ".join(f"data.{name}" for names in given.values() for name in names)
        faults.append(f"data.dataset={data.dataset!r} and {names} are both given; choose one")
    for split, names in given.items():
        sides = [f"{split}_source", f"{split}_target"]
        if split in names and len(names) > 1:
            faults.append(f"data.{split} and data.{names[1]} are both given; choose one")
        elif len(names) == 1 and split not in names:
            [missing] = set(sides) - set(names)
            faults.append(f"data.{missing} is missing: the path of a text file")
        elif not names and not data.dataset and split != "test":
            faults += [
                f"data.{name} is missing: the path of a text file (or data.dataset: embedded, or data.{split}: a file "
                "with both sides)"
                for name in sides
            ]
    if not data.dataset:
        faults += [
            f"data.{name} says which part of a data set to take, but there is no data.dataset"
            for name in ("dataset_config", "dataset_revision")
            if getattr(data, name)
        ]
    if data.max_length_ratio is not None and not 1 <= data.max_length_ratio < math.inf:
        faults.append(f"data.max_length_ratio must be at least 1, got {data.max_length_ratio}")
    if data.streaming and data.max_length > training.max_tokens:
        faults.append(
            f"data.max_length={data.max_length} lets in sentences that no batch of training.max_tokens="
            f"{training.max_tokens} holds, and a stream cannot be looked through beforehand: lower the one or raise "
            "the other"
        )
    if data.streaming and data.drop_duplicates:
        faults.append("data.drop_duplicates needs to have seen all pairs, which data.streaming does not: choose one")
    return faults


def _given(data: DataArguments, split: str) -> list[str]:
    return [name for name in (split, f"{split}_source", f"{split}_target") if getattr(data, name)]


def _of_training(training: TrainingArguments) -> list[str]:
    faults = []
    if not training.output_dir:
        faults.append("training.output_dir is missing: the folder of checkpoints and final model")
    for name in ABOVE_ZERO:
        value = getattr(training, name)
        if value is not None and not 0 < value < math.inf:
            faults.append(f"training.{name} must be above 0, got {value}")
    for name, limit in BELOW.items():
        value = getattr(training, name)
        if value is not None and not 0 <= value < limit:
            faults.append(f"training.{name} must be in [0, {limit}), got {value}")
    if len(training.adam_betas) != 2 or not all(0 <= beta < 1 for beta in training.adam_betas):
        faults.append(f"training.adam_betas must be two numbers in [0, 1), got {training.adam_betas}")
    if training.schedule in ("paper", "inverse_sqrt") and training.warmup_updates == 0:
        faults.append(f"training.warmup_updates must be at least 1 for schedule {training.schedule!r}, got 0")
    if training.schedule in ("linear", "cosine") and training.warmup_updates >= training.max_updates:
        faults.append(
            f"training.warmup_updates={training.warmup_updates} leaves nothing of training.max_updates="
            f"{training.max_updates} for schedule {training.schedule!r} to fall in: lower the one or raise the other"
        )
    if training.average_best is None and training.average_last > training.keep_last:
        faults.append(
            f"training.average_last={training.average_last} needs as many checkpoints, "
            f"but training.keep_last={training.keep_last}"
        )
    if training.average_best is not None and training.average_best > training.keep_best:
        faults.append(
            f"training.average_best={training.average_best} needs as many kept weights, "
            f"but training.keep_best={training.keep_best}"
        )
    if training.license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", training.license):
        faults.append(
            f"training.license={training.license!r} is no identifier of the Hub (apache-2.0, cc-by-4.0, other). "
            "They are listed at https://huggingface.co/docs/hub/repositories-licenses"
        )
    if training.best_metric != "loss" and not training.validate_sentences:
        faults.append(
            f"training.best_metric={training.best_metric!r} needs translations of the validation text, but "
            "training.validate_sentences=0"
        )
    return faults


def _of_model(
    data: DataArguments, tokenizer: TokenizerArguments, model: dict[str, Any], training: TrainingArguments
) -> list[str]:
    if training.start_from:
        return []  # seen once the model that training starts from is read
    if not tokenizer.joint and model.setdefault("share_encoder_decoder_embeddings", False):
        return ["tokenizer.joint=False contradicts model.share_encoder_decoder_embeddings=True: choose one"]
    try:
        config = VaswaniConfig(**model)
    except Exception as error:  # whatever the strict dataclass raises is a fault of the recipe
        return [f"model: {' '.join(str(error).split())}"]
    if config.position_type == "learned" and data.max_length > config.max_position_embeddings:
        return [
            f"data.max_length={data.max_length} is beyond model.max_position_embeddings="
            f"{config.max_position_embeddings}, where learned positions end; lower the one or raise the other"
        ]
    return []
