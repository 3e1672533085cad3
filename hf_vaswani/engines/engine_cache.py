"""Converts a model for CTranslate2 once, checks that both compute the same, and keeps the result in a cache.

The cache is a folder beside that of prepared text. Its folders are complete or absent, are named after a hash of the
weights, and hold checksums, so that what was damaged is made again.
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

from ..data.cache import cache_folder, cached, check_checksums, folder_name
from .ctranslate2_config import CTranslate2Config
from .ctranslate2_export import write_without_tokenizer
from .ctranslate2_model import CTranslate2Model
from .engine_model import weights_digest

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
    """What tells a model's conversion from those of others: its weights, and all that its config says of them."""
    config = {name: value for name, value in model.config.to_dict().items() if name not in ("_name_or_path", "dtype")}
    return json.dumps([weights_digest(model), config], sort_keys=True, default=str)


def open_converted(model: PreTrainedModel, key: str, quantization: str | None = None) -> CTranslate2Model:
    """Open a model's conversion from the cache, after making it if there is none.

    Args:
        model: a model without any [`unsupported_features`](ctranslate2_spec.py); it is not modified.
        key: tells its conversion from others, see [`weights_key`].
        quantization: the type of the weights; `None` for float32.

    Raises:
        EngineDiffers: CTranslate2 computes other probabilities than the model.
        InputError: CTranslate2 is not installed, or the cache cannot be written.
    """
    started = time.monotonic()

    def make(folder: Path) -> None:
        logger.warning("Converting the model to CTranslate2, once, which makes it faster.")
        write_without_tokenizer(model, folder, quantization)
        exact = model if model.dtype == torch.float32 else copy.deepcopy(model).float()
        deviation = largest_deviation(exact, _open(folder, model.config, model.generation_config))
        # Weights in fewer bits are not the same, and NaN compares with nothing.
        if not deviation <= (LARGEST_DEVIATION if quantization is None else torch.finfo(torch.float32).max):
            raise EngineDiffers(
                f"CTranslate2 computes log-probabilities that differ from the model's by up to {deviation:.3g}"
            )

    def read(folder: Path) -> CTranslate2Model:
        return _open(folder, model.config, model.generation_config, str(model.device))

    cache, place = _cache(), _key(key, quantization)
    is_new = not (cache / folder_name(place)).exists()
    engine = cached(cache, place, make, read, "converted model", REMEDY)
    if is_new:
        logger.warning("Converted in %.0f s; kept in %s.", time.monotonic() - started, cache / folder_name(place))
        _remove_unused(cache)
    return engine


def find_converted(
    key: str,
    config: PreTrainedConfig,
    generation_config: GenerationConfig,
    quantization: str | None = None,
    device: str = "cpu",
) -> CTranslate2Model | None:
    """Open a conversion that is in the cache already; `None` if it is not there, or damaged."""
    folder = _cache() / folder_name(_key(key, quantization))
    try:
        check_checksums(folder)
        engine = _open(folder, config, generation_config, device)
    except (OSError, ValueError, KeyError, AttributeError, EOFError):  # JSON errors are ValueErrors
        return None
    with suppress(OSError):
        os.utime(folder)
    return engine


def _open(
    folder: Path, config: PreTrainedConfig, generation_config: GenerationConfig, device: str = "cpu"
) -> CTranslate2Model:
    stored = CTranslate2Config.from_pretrained(folder)
    return CTranslate2Model(stored, folder, device=device, original=config, generation_config=generation_config)


def _cache() -> Path:
    return cache_folder() / "ctranslate2"


def _key(key: str, quantization: str | None) -> list[str | int | None]:
    return [key, quantization, LAYOUT, version("ctranslate2")]


@torch.no_grad()
def largest_deviation(model: PreTrainedModel, engine: CTranslate2Model) -> float:
    """How far the log-probabilities of the tokens of random targets are apart in the model and in the engine.

    For those below -1, which single precision holds less exactly, it is the relative difference.
    """
    generator = torch.Generator().manual_seed(SEED)
    special = {getattr(model.config, f"{name}_token_id", None) for name in ("pad", "bos", "eos", "decoder_start")}
    longest = min(LONGEST, (engine.stored.max_position_embeddings or LONGEST + 1) - 1)
    lengths, sides = range(min(SHORTEST, longest), longest + 1), []
    for module in (model.get_input_embeddings(), model.get_output_embeddings()):
        tokens = torch.tensor([token for token in range(len(module.weight)) if token not in special])
        chosen = (torch.randint(len(tokens), (length,), generator=generator) for length in lengths)
        sides.append([tokens[numbers].tolist() for numbers in chosen])
    start, end = engine.stored.decoder_start_token_id, engine.stored.eos_token_id
    largest = 0.0
    for source, target, got in zip(*sides, engine.target_log_probabilities(*sides)):
        inputs = torch.tensor([source]), torch.tensor([[start, *target]])
        logits = _logits(model, *inputs)
        expected = logits[0].log_softmax(-1)[torch.arange(len(target) + 1), torch.tensor([*target, end])]
        apart = (expected - torch.tensor(got)).abs() / expected.abs().clamp(min=1)
        largest = max(largest, float(apart.nan_to_num(nan=torch.inf).max()))  # NaN is infinitely far off
    return largest


def _logits(model: PreTrainedModel, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    source, target = source.to(model.device), target.to(model.device)
    outputs = model(input_ids=source, attention_mask=torch.ones_like(source), decoder_input_ids=target)
    return outputs.logits.float().cpu()


def _remove_unused(cache: Path) -> None:
    """Remove conversions that have not been opened for a month."""
    for folder in cache.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > UNUSED_DAYS * 24 * 3600:
                shutil.rmtree(folder)
