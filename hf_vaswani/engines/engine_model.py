"""What the models of other engines have in common: they are opened from a folder and hold no torch weights."""

import hashlib
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from ..errors import InputError


class EngineModel(PreTrainedModel):
    """A model that another engine computes, opened from a folder that `hf-vaswani export` has written.

    Subclasses take the config and the folder, and set `config_class`, `engine_key` (what options call the engine) and
    `engine_name`.
    """

    main_input_name = "input_ids"
    _supports_sdpa = True  # no attention is computed here
    engine_key = engine_name = ""
    # The folder's config; `config` may come from the model that was converted.
    stored: PreTrainedConfig

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
    def engine_arguments(cls, kwargs: dict[str, object]) -> dict[str, object]:
        """The arguments of `from_pretrained` that are for the engine; none by default."""
        return {}

    def target_log_probabilities(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each token of given targets, with the end token but without the start token.

        Args:
            sources: token ids as the tokenizer returns them.
            targets: token ids without start and end.
        """
        pairs = zip(sources, map(self.with_ends, targets))
        return [target_log_probabilities(self, source, target) for source, target in pairs]

    def with_ends(self, target: list[int]) -> list[int]:
        """Token ids with the decoder's start token and the end token around them."""
        eos = self.stored.eos_token_id
        return [self.stored.decoder_start_token_id, *target, eos if isinstance(eos, int) else eos[0]]

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


@torch.no_grad()
def target_log_probabilities(model: PreTrainedModel, source: list[int], target: list[int]) -> list[float]:
    """The log-probability of each token of a target but the first, by the logits of a model."""
    ids, shifted = torch.tensor([source], device=model.device), torch.tensor([target], device=model.device)
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=shifted[:, :-1]).logits
    return logits[0].float().log_softmax(-1).gather(-1, shifted[0, 1:, None])[:, 0].tolist()


def weights_digest(model: nn.Module) -> str:
    """The SHA-256 of all weights, which tells one model's exports and translations from another's."""
    result = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        result.update(name.encode())
        result.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return result.hexdigest()
