"""Converts a model for another engine once, checks that both compute the same, and keeps the result in a cache.

The cache has a folder for each engine, next to the folder for prepared text. The folders in it are named after a hash
of the weights. Next to them, the cache notes which weights are in which files, so that a conversion can be opened
without loading the model. A folder or note that is damaged, that is in the place of another, or that another user
can have changed is made again.
"""

import copy
import json
import logging
import os
import shutil
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel

from ...backends import BackendRecord
from ...data.cache import cache_folder, cached, check_folder, folder_name, read_note, write_note
from ...engines.engine_model import EngineModel, target_log_probabilities, weights_digest
from ...generation.settings import position_limit

logger = logging.getLogger(__name__)

# To be raised when the same weights are written differently.
LAYOUT = 1
UNUSED_DAYS = 30
# The sample of the check: pairs of random tokens; and how far log-probabilities may be apart in float32, as a share of
# those below -1.
SHORTEST, LONGEST, SEED = 2, 17, 0
LARGEST_DEVIATION = 1e-3
REMEDY = "choose another folder with $HF_VASWANI_CACHE"


class EngineDiffers(ValueError):
    """The engine computes other probabilities than the model."""


def weights_key(model: PreTrainedModel) -> str:
    """What identifies a model's conversions: its weights, and all that its config says of them."""
    config = {name: value for name, value in model.config.to_dict().items() if name not in ("_name_or_path", "dtype")}
    return folder_name([weights_digest(model), json.dumps(config, sort_keys=True, default=str)])


def note_key(files: str, key: str) -> None:
    """Note in the cache which weights are in files, given by their digest."""
    write_note(_note(files), {"files": files, "weights": key})


def find_key(files: str) -> str | None:
    """The key of the weights in files, given by their digest; `None` if it has not been noted."""
    note = read_note(_note(files))
    if note.get("files") != files or not isinstance(key := note.get("weights"), str):
        return None
    with suppress(OSError):
        os.utime(_note(files))
    return key


def open_converted(
    record: BackendRecord, model: PreTrainedModel, key: str, quantization: str | None = None
) -> EngineModel:
    """Open a model's conversion from the cache, after making it if necessary.

    Args:
        model: a model without features that the engine does not support; it is not modified.
        key: its [`weights_key`].
        quantization: the type of the weights; `None` for float32.

    Raises:
        EngineDiffers: the engine computes other probabilities than the model.
        InputError: the engine is not installed, or the cache cannot be written.
    """
    started = time.monotonic()

    def make(folder: Path) -> None:
        gain = ", which makes it faster" if record.searches else ""
        logger.warning("Converting the model to %s, once%s.", record.title, gain)
        exact = model if model.dtype == torch.float32 else copy.deepcopy(model).float()
        record.load("convert")(exact, folder, quantization)
        deviation = largest_deviation(exact, record.load("open")(folder, model.config, model.generation_config, "cpu"))
        # Weights in fewer bits are not the same, and NaN compares with nothing.
        if not deviation <= (LARGEST_DEVIATION if quantization is None else torch.finfo(torch.float32).max):
            raise EngineDiffers(
                f"{record.title} computes log-probabilities that differ from the model's by up to {deviation:.3g}"
            )

    def read(folder: Path) -> EngineModel:
        return record.load("open")(folder, model.config, model.generation_config, str(model.device))

    cache, place = _cache(record), _place(record, key, quantization)
    is_new = not (cache / folder_name(place)).exists()
    engine = cached(cache, place, make, read, "converted model", REMEDY)
    if is_new:
        logger.warning("Converted in %.0f s; kept in %s.", time.monotonic() - started, cache / folder_name(place))
        _remove_unused(cache)
        _remove_unused(_note("").parent)
    return engine


def find_converted(
    record: BackendRecord,
    key: str,
    config: PreTrainedConfig,
    generation_config: GenerationConfig,
    quantization: str | None = None,
    device: str = "cpu",
) -> EngineModel | None:
    """Open a conversion that is in the cache already; `None` if it is not there, or damaged."""
    folder = _cache(record) / folder_name(_place(record, key, quantization))
    try:
        check_folder(folder)
        engine = record.load("open")(folder, config, generation_config, device)
    except Exception:  # the engines raise errors of many types
        return None
    with suppress(OSError):
        os.utime(folder)
    return engine


def _cache(record: BackendRecord) -> Path:
    return cache_folder() / record.name


def _note(files: str) -> Path:
    return cache_folder() / "weights" / folder_name(files)


def _place(record: BackendRecord, key: str, quantization: str | None) -> list[str | int | None]:
    return [key, quantization, LAYOUT, version(record.libraries[-1])]


@torch.no_grad()
def largest_deviation(model: PreTrainedModel, engine: EngineModel) -> float:
    """How far the log-probabilities of the tokens of random targets are apart in the model and in the engine.

    For those below -1, which single precision holds less exactly, it is the relative difference.
    """
    generator = torch.Generator().manual_seed(SEED)
    special = {getattr(model.config, f"{name}_token_id", None) for name in ("pad", "bos", "eos", "decoder_start")}
    longest = min(LONGEST, (position_limit(engine) or LONGEST + 1) - 1)
    lengths, sides = range(min(SHORTEST, longest), longest + 1), []
    for module in (model.get_input_embeddings(), model.get_output_embeddings()):
        tokens = torch.tensor([token for token in range(len(module.weight)) if token not in special])
        chosen = (torch.randint(len(tokens), (length,), generator=generator) for length in lengths)
        sides.append([tokens[numbers].tolist() for numbers in chosen])
    largest = 0.0
    for source, target, got in zip(*sides, engine.target_log_probabilities(*sides)):
        expected = torch.tensor(target_log_probabilities(model, source, engine.with_ends(target)))
        apart = (expected - torch.tensor(got)).abs() / expected.abs().clamp(min=1)
        largest = max(largest, float(apart.nan_to_num(nan=torch.inf).max()))  # NaN is infinitely far off
    return largest


def _remove_unused(cache: Path) -> None:
    """Remove what has not been opened for a month."""
    for path in cache.iterdir() if cache.is_dir() else ():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED_DAYS * 24 * 3600:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
