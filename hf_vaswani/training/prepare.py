"""What comes before the first update: texts, tokenizer, token ids, model and output folder, each checked."""

import shutil
from pathlib import Path

import yaml
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from ..configuration_vaswani import VaswaniConfig
from ..data.parallel_text import Pair, read_parallel
from ..data.tokenizer import train_tokenizer
from ..errors import InputError
from ..modeling_vaswani import VaswaniForConditionalGeneration
from .checkpoint import checkpoint_folders
from .log import LOG_FILE
from .recipe import DataArguments, GenerationArguments, Recipe

RECIPE_FILE = "training_recipe.yaml"
CHECKPOINTS = "checkpoints"
TOKENIZER = "tokenizer"
# What may change between two runs of one training: where it stops and what it reports.
CHANGEABLE = {
    "output_dir", "max_updates", "max_minutes", "log_every", "validate_every", "validate_sentences", "save_every",
    "keep_last", "average_last", "overwrite", "cpu_threads",
}  # fmt: skip
# Schedules whose rate depends on the last update: going on to another one would make another training.
SCHEDULES_TO_THE_END = {"linear", "cosine"}


def load_splits(data: DataArguments) -> dict[str, list[Pair]]:
    """The pairs of `"train"`, `"validation"` and, where there is one, `"test"`.

    Raises:
        InputError: the faults of all files at once.
    """
    if data.dataset == "embedded":
        from ..data.corpus import generate_corpus

        return generate_corpus()
    splits, faults = {}, []
    for split in ("train", "validation", "test"):
        source, target = getattr(data, f"{split}_source"), getattr(data, f"{split}_target")
        if source is None:
            continue
        try:
            splits[split] = read_parallel(source, target)
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError.of(faults)
    return splits


def open_output(recipe: Recipe) -> Path:
    """Make the output folder, or find there the same training, to go on with.

    Raises:
        InputError: the folder holds something else, or another recipe's training; nothing of it is touched.
    """
    folder = Path(recipe.training.output_dir)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"training.output_dir={folder} is a file. Choose another folder.")
    stored = folder / RECIPE_FILE
    if stored.exists():
        differences = _differences(yaml.safe_load(stored.read_text(encoding="utf-8")), recipe)
        # Before its first checkpoint a training has nothing that could be lost.
        if recipe.training.overwrite or (differences and not checkpoint_folders(folder / CHECKPOINTS)):
            _remove_training(folder)
        elif differences:
            raise InputError(
                f"{folder} holds a training of another recipe ({'; '.join(differences)}). Choose another "
                "--output_dir, or give --overwrite true to delete that training."
            )
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no training. Choose another --output_dir.")
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        stored.write_text(yaml.safe_dump(recipe.to_dict(), sort_keys=False, allow_unicode=True), encoding="utf-8")
    except OSError as error:
        raise InputError(f"training.output_dir={folder} cannot be written: {error.strerror}") from None
    return folder


def _remove_training(folder: Path) -> None:
    """Delete what a training goes on from, and nothing else that a user may have put beside it."""
    for name in (CHECKPOINTS, TOKENIZER):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (LOG_FILE, RECIPE_FILE):
        (folder / name).unlink(missing_ok=True)


def _differences(stored: dict, recipe: Recipe) -> list[str]:
    new = recipe.to_dict()
    ends = {"max_updates"} if recipe.training.schedule in SCHEDULES_TO_THE_END else set()
    changeable = {("training", name) for name in CHANGEABLE - ends} | {("generation", n) for n in new["generation"]}
    return [
        f"{section}.{name} was {stored.get(section, {}).get(name)!r} and is now {new[section].get(name)!r}"
        for section in new
        for name in {**stored.get(section, {}), **new[section]}
        if (section, name) not in changeable and stored.get(section, {}).get(name) != new[section].get(name)
    ]


def open_tokenizer(folder: Path, recipe: Recipe, pairs: list[Pair]) -> PreTrainedTokenizerFast:
    """The tokenizer of this output folder, trained now if there is none."""
    path = folder / TOKENIZER
    if not path.exists():
        part = path.with_suffix(".part")
        tokenizer = train_tokenizer(pairs, recipe.tokenizer.vocab_size, recipe.tokenizer.joint)
        tokenizer.save_pretrained(part)
        part.rename(path)
    return AutoTokenizer.from_pretrained(path)


def build_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> VaswaniForConditionalGeneration:
    """A new model of the recipe's architecture, for the vocabulary of the tokenizer."""
    config = VaswaniConfig(
        **recipe.model,
        vocab_size=len(tokenizer),
        decoder_vocab_size=getattr(tokenizer, "target_vocab_size", len(tokenizer)),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = VaswaniForConditionalGeneration(config)
    model.generation_config = generation_config(recipe.generation, config)
    return model


def generation_config(arguments: GenerationArguments, config: VaswaniConfig) -> GenerationConfig:
    """How the model translates unless told otherwise."""
    beam = {"length_penalty": arguments.length_penalty, "early_stopping": False} if arguments.num_beams > 1 else {}
    return GenerationConfig(
        num_beams=arguments.num_beams,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        **beam,
    )
