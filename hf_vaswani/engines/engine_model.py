"""What the models of other engines have in common: they are opened from a folder and hold no torch weights."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from ..errors import InputError


class EngineModel(PreTrainedModel):
    """A model that another engine computes, opened from a folder that `hf-vaswani export` has written.

    Subclasses take the config and the folder, and set `config_class` and `engine_name`.
    """

    main_input_name = "input_ids"
    engine_name = ""

    @classmethod
    def from_pretrained(cls, path: str | Path, *args, config: PreTrainedConfig | None = None, **kwargs):
        """Open a folder, or a repository on the Hub.

        Args:
            kwargs: `revision`, `cache_dir`, `token` and `subfolder`, and what [`engine_arguments`] reads; other
                arguments of transformers have no effect.
        """
        hub = {name: kwargs[name] for name in ("revision", "cache_dir", "token") if kwargs.get(name) is not None}
        folder = path if Path(path).is_dir() else snapshot_download(str(path), **hub)
        folder = Path(folder) / (kwargs.get("subfolder") or "")
        model = cls(config or cls.config_class.from_pretrained(folder), folder, **cls.engine_arguments(kwargs))
        if kwargs.get("output_loading_info"):
            return model, {name: [] for name in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")}
        return model

    @classmethod
    def engine_arguments(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments for the engine among those of `from_pretrained`; none by default."""
        return {}

    def save_pretrained(self, *args, **kwargs) -> None:
        raise InputError(f"A model of {self.engine_name} cannot be saved; copy its folder instead.")

    @property
    def device(self) -> torch.device:
        """The device of input and output ids, regardless of the device that the engine computes on."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    @classmethod
    def can_generate(cls) -> bool:
        return True


def empty_table(rows: int) -> nn.Module:
    """A table of embeddings without values, for callers that ask only how many rows it has."""
    with torch.device("meta"):
        return nn.Embedding(rows, 1)


def weights_digest(model: nn.Module) -> str:
    """The SHA-256 of all weights, which tells a model's exports and translations from those of another."""
    result = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        result.update(name.encode())
        result.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return result.hexdigest()
