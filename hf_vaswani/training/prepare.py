"""What comes before the first update: texts, tokenizer, token ids, model and output folder, each checked."""

import contextlib
import hashlib
import shutil
from pathlib import Path

import yaml
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from ..configuration_vaswani import VaswaniConfig
from ..data.parallel_text import Pair, read_parallel
from ..data.tokenizer import load_tokenizer, train_tokenizer
from ..errors import InputError
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..tokenization_vaswani import TARGET_TOKENIZER_FILE
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


def text_fingerprints(splits: dict[str, list[Pair]]) -> dict[str, str]:
    """A digest of the texts that a training learns from and is judged by, wherever their files lie."""
    digests = {}
    for split in ("train", "validation"):
        lines = "\n".join(f"{source}\t{target}" for source, target in splits[split])
        digests[split] = hashlib.sha256(lines.encode()).hexdigest()
    return digests


def is_resumed(recipe: Recipe, texts: dict[str, str]) -> bool:
    """Whether the output folder holds this very training, to go on with. Nothing is written.

    Args:
        texts: what [`text_fingerprints`] gives.

    Raises:
        InputError: the folder holds something else, another recipe's training, or one on other texts.
    """
    folder = Path(recipe.training.output_dir)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"training.output_dir={folder} is a file. Choose another folder.")
    stored = folder / RECIPE_FILE
    if not stored.exists():
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty and holds no training. Choose another --output_dir.")
        return False
    # Before its first checkpoint a training has nothing that could be lost.
    if recipe.training.overwrite or not checkpoint_folders(folder / CHECKPOINTS):
        return False
    differences = _differences(_read_stored(stored), recipe, texts)
    if differences:
        raise InputError(
            f"{folder} holds a training of another recipe ({'; '.join(differences)}). Choose another --output_dir, "
            "or give --overwrite true to delete that training."
        )
    return True


def begin_output(recipe: Recipe, texts: dict[str, str], tokenizer: PreTrainedTokenizerFast, is_resumed: bool) -> None:
    """Make the output folder ready: for a new training delete an earlier one; store recipe and tokenizer.

    Raises:
        InputError: where the folder cannot be written.
    """
    folder = Path(recipe.training.output_dir)
    try:
        if not is_resumed:
            _remove_training(folder)
        folder.mkdir(parents=True, exist_ok=True)
        content = {**recipe.to_dict(), "texts": texts}
        part = folder / f"{RECIPE_FILE}.part"
        part.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
        part.replace(folder / RECIPE_FILE)
        if not is_resumed:
            tokenizer.save_pretrained(folder / TOKENIZER)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"training.output_dir={folder} cannot be written: {error.strerror}") from None


def _remove_training(folder: Path) -> None:
    """Delete what a training goes on from, and nothing else that a user may have put beside it."""
    for name in (CHECKPOINTS, TOKENIZER):
        if (folder / name).exists():
            shutil.rmtree(folder / name)
    for name in (LOG_FILE, RECIPE_FILE, TARGET_TOKENIZER_FILE):
        (folder / name).unlink(missing_ok=True)


def _read_stored(path: Path) -> dict:
    content = None
    with contextlib.suppress(yaml.YAMLError, UnicodeDecodeError):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged. Choose another --output_dir, or give --overwrite true.")
    return content


def _differences(stored: dict, recipe: Recipe, texts: dict[str, str]) -> list[str]:
    new = recipe.to_dict()
    ends = {"max_updates"} if recipe.training.schedule in SCHEDULES_TO_THE_END else set()
    changeable = {("training", name) for name in CHANGEABLE - ends}
    changeable |= {("generation", name) for name in new["generation"]}
    # The texts themselves are compared, not where they lie.
    changeable |= {("data", name) for name in new["data"] if name.endswith(("_source", "_target"))}
    differences = [
        f"{section}.{name} was {stored.get(section, {}).get(name)!r} and is now {new[section].get(name)!r}"
        for section in new
        for name in {**stored.get(section, {}), **new[section]}
        if (section, name) not in changeable and stored.get(section, {}).get(name) != new[section].get(name)
    ]
    other_texts = [split for split in texts if stored.get("texts", {}).get(split) != texts[split]]
    return differences + [f"the {split} text has changed" for split in other_texts]


def open_tokenizer(recipe: Recipe, pairs: list[Pair], is_resumed: bool) -> PreTrainedTokenizerFast:
    """The tokenizer of the training that is gone on with, the one that the recipe names, or a new one."""
    if is_resumed:
        return AutoTokenizer.from_pretrained(Path(recipe.training.output_dir) / TOKENIZER)
    if recipe.tokenizer.path:
        return load_tokenizer(recipe.tokenizer.path)
    return train_tokenizer(pairs, recipe.tokenizer)


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
