"""What all Vaswani models share besides the computation: initialization, tying, resizing, saving; checks of ids."""

import shutil
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import logging
from transformers.utils.output_capturing import capture_outputs

from .configuration_vaswani import VaswaniConfig

RESIZE_HINT = (
    "If you added tokens to the tokenizer, call model.resize_token_embeddings(len(tokenizer)). Otherwise, use the "
    "tokenizer that the model was trained with."
)
logger = logging.get_logger(__name__)


def warn_of_trainer(labels: torch.Tensor | None, divisor: torch.Tensor | float | None, device: torch.device) -> None:
    """Warn once about settings of transformers' Trainer that silently do not do what they say.

    Args:
        labels, divisor: `labels` and `num_items_in_batch` of a forward pass in training; only the Trainer passes the
            second without the first.
        device: the model's device.
    """
    if torch.compiler.is_compiling():
        return
    if labels is None and divisor is not None:
        logger.warning_once(
            "The Trainer's label_smoothing_factor (or compute_loss_func) takes the labels away from the model, so "
            "label_smoothing in its config has no effect, and it smooths the evaluation loss too. Leave it at 0 and "
            "set label_smoothing in the config: the model smooths only in training."
        )
    if device.type == "cpu" and not torch.is_autocast_enabled("cpu") and _accelerate_precision() == "fp16":
        logger.warning_once(
            "fp16=True has no effect on a CPU, where Accelerate computes in fp32 instead. Use bf16=True."
        )


def _accelerate_precision() -> str:
    """The mixed precision that Accelerate uses; "no" if it has not been set up."""
    state = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    return state().mixed_precision if state is not None and state._shared_state else "no"


def records_outputs(forward: Callable) -> Callable:
    """Decorate a forward pass to record what its arguments `output_…` request or, where they are None, its config.

    transformers' own decorator asks the config only for arguments that are absent.
    """
    recording = capture_outputs(forward)

    @wraps(forward)
    def wrapper(self, *args, **kwargs):
        return recording(self, *args, **{name: value for name, value in kwargs.items() if value is not None})

    return wrapper


def _differ(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two weights have different values; False for those that are sharded or not in memory."""
    if one is other or one.device != other.device or one.is_meta or hasattr(one, "device_mesh"):
        return False
    return not torch.equal(one.float(), other.float())


class VaswaniPreTrainedModel(PreTrainedModel):
    """Initialization, loading and saving that all Vaswani models share."""

    config_class = VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["VaswaniEncoderLayer", "VaswaniDecoderLayer"]
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """Initialize one module.

        Projections are Xavier-uniform with zero biases, scaled by `qkv_init_gain` for queries, keys and values.
        Embeddings and output projection are normal with standard deviation d_model^-0.5, padding is zero. Norms have
        weight 1 and bias 0.
        """
        std = self.config.d_model**-0.5
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=std)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, nn.Linear):
            if module is self.get_output_embeddings():
                init.normal_(module.weight, std=std)
            else:
                init.xavier_uniform_(module.weight, gain=getattr(module, "init_gain", 1.0))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Tied parameter → the one that holds its values.

        transformers ties nothing if `tie_word_embeddings` is off. Here that option concerns only the output
        projection: source and target may still share their embeddings.
        """
        tied = self._tied_weights_keys or {}
        return {k: v for k, v in tied.items() if k != "lm_head.weight" or self.config.tie_word_embeddings}

    def load_state_dict(self, state_dict, *args, **kwargs):
        """Load as in PyTorch; of weights that are tied, one is enough, as in saved files."""
        weights = dict(self.named_parameters(remove_duplicate=False))
        others = {
            name: state_dict[source]
            for name, source in self.get_expanded_tied_weights_keys().items()
            if source in state_dict and name in weights and weights[name] is weights.get(source)
        }
        return super().load_state_dict({**others, **state_dict}, *args, **kwargs)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs) -> nn.Embedding:
        """Resize the joint vocabulary: source, target and output projection together.

        If source and target have separate embeddings, only the source's are resized; use
        `resize_decoder_token_embeddings` for the target's.
        """
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        if self.config.share_encoder_decoder_embeddings:
            self.config.decoder_vocab_size = self.config.vocab_size
        return embeddings

    def resize_decoder_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize a separate target vocabulary: embeddings and output projection together.

        Raises:
            ValueError: source and target share their embeddings.
        """
        if self.config.share_encoder_decoder_embeddings:
            raise ValueError("Source and target share their embeddings: resize both with resize_token_embeddings.")
        decoder, old = self.get_decoder(), self.get_decoder().embed_tokens
        new = self._get_resized_embeddings(old, new_num_tokens, pad_to_multiple_of, mean_resizing)
        decoder.embed_tokens = new.requires_grad_(old.weight.requires_grad)
        self.config.decoder_vocab_size = new.num_embeddings
        old_head = self.get_output_embeddings()
        if old_head is not None:
            head = self._get_resized_lm_head(old_head, new.num_embeddings, mean_resizing=mean_resizing)
            self.set_output_embeddings(head.requires_grad_(old_head.weight.requires_grad))
        self.tie_weights()
        return new

    def _resize_token_embeddings(self, new_num_tokens, pad_to_multiple_of=None, mean_resizing=True):
        if self.config.share_encoder_decoder_embeddings:
            return super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        # transformers would also resize the output projection, which belongs to the target.
        old = self.get_input_embeddings()
        new = self._get_resized_embeddings(old, new_num_tokens, pad_to_multiple_of, mean_resizing)
        self.set_input_embeddings(new.requires_grad_(old.weight.requires_grad))
        return self.get_input_embeddings()

    def save_pretrained(self, save_directory, is_main_process: bool = True, **kwargs):
        """Save as in transformers, with the code that loads the checkpoint where this package is not installed."""
        if is_main_process:
            Path(save_directory).mkdir(parents=True, exist_ok=True)
            copy_remote_code(Path(save_directory))
            self._warn_of_untied_weights()
            if self.can_generate():
                # With this flag set, transformers would drop unknown settings on loading.
                self.generation_config._from_model_config = False
        super().save_pretrained(save_directory, is_main_process=is_main_process, **kwargs)

    def _warn_of_untied_weights(self) -> None:
        """Warn if weights that are tied on loading differ, as PEFT's `modules_to_save` may leave them."""
        weights = dict(self.named_parameters(remove_duplicate=False))
        for name, source in self.get_expanded_tied_weights_keys().items():
            if name in weights and source in weights and _differ(weights[name], weights[source]):
                logger.warning(
                    f"{name} and {source} are tied in the config but have different values: once saved and loaded, "
                    "this is another model. If they come from an adapter with modules_to_save, save that instead."
                )

    def _get_files_timestamps(self, working_dir) -> dict[str, float]:
        """Timestamps of the files before saving; those that stay unchanged are not pushed, except the code."""
        code = {path.name for path in remote_code_files()}
        return {k: v for k, v in super()._get_files_timestamps(working_dir).items() if k not in code}

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        input_ids = torch.tensor([[3, 4, 5], [3, 4, self.config.pad_token_id]], device=self.device)
        return {
            "input_ids": input_ids,
            "attention_mask": input_ids.ne(self.config.pad_token_id).long(),
            "decoder_input_ids": input_ids,
        }


def remote_code_files() -> list[Path]:
    """The source files that a checkpoint carries: all those in this folder.

    transformers fetches a remote file together with its relative imports. The pipeline and the tokenizer are imported
    here so that a model loaded from remote code has them too, and can be saved with all its code again.
    """
    from .pipeline_translation import TranslationPipeline  # noqa: F401
    from .tokenization_vaswani import VaswaniTokenizer  # noqa: F401

    return sorted(path for path in Path(__file__).parent.glob("*.py") if path.name != "__init__.py")


def copy_remote_code(folder: Path) -> None:
    """Copy the source files into the folder of a checkpoint."""
    for source in remote_code_files():
        shutil.copyfile(source, folder / source.name)


def check_ids(name: str, token_ids: torch.Tensor) -> None:
    """Refuse anything but token ids of shape `(batch, length)`, both at least 1."""
    is_tensor = isinstance(token_ids, torch.Tensor)
    if is_tensor and token_ids.dim() == 2 and token_ids.numel() and token_ids.dtype in (torch.int32, torch.int64):
        return
    found = f"{token_ids.dtype} of shape {tuple(token_ids.shape)}" if is_tensor else f"a {type(token_ids).__name__}"
    raise ValueError(f"{name} must be a tensor of token ids, (batch, length), with at least one; got {found}.")


def check_token_ids(name: str, token_ids: torch.Tensor, vocab_size: int) -> None:
    """Refuse ids that are not of shape `(batch, length)` and, on a CPU, ids outside the vocabulary.

    On other devices, the second check would stall the computation.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    check_ids(name, token_ids)
    if token_ids.device.type != "cpu":
        return
    if token_ids.min() < 0 or token_ids.max() >= vocab_size:
        raise ValueError(
            f"{name}: token ids from {token_ids.min()} to {token_ids.max()} were given, but the vocabulary goes "
            f"from 0 to {vocab_size - 1}. {RESIZE_HINT}"
        )


def check_same_batch(sources: torch.Tensor, targets: torch.Tensor | None) -> None:
    """Refuse targets whose batch size differs from the sources': they would be broadcast."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    # Shapes are checked elsewhere.
    if not isinstance(targets, torch.Tensor) or targets.dim() < 2 or len(targets) in (0, len(sources)):
        return
    raise ValueError(
        f"The batch has {len(sources)} source(s) and {len(targets)} target(s) (labels, decoder_input_ids or "
        "decoder_inputs_embeds). Give one target for each source."
    )


def check_length(past_length: int | torch.Tensor, length: int, limit: int) -> None:
    """Refuse sequences longer than the learned positions. A length in a tensor is not checked: that would stall."""
    if isinstance(past_length, int) and past_length + length > limit:
        raise ValueError(
            f"The sequence has {past_length + length} tokens, but this model's learned positions end at "
            f"max_position_embeddings={limit}. Shorten or truncate the text, request a shorter translation "
            '(max_new_tokens), or train with position_type="sinusoidal", which has no limit.'
        )


def token_mask(
    inputs_embeds: torch.Tensor, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None, pad_token_id: int
) -> torch.Tensor:
    """Which input positions `(batch, length)` are not padding: by the ids, else by the mask, else all of them."""
    if input_ids is not None:
        return input_ids.ne(pad_token_id)
    if attention_mask is not None and attention_mask.dim() == 2:
        return attention_mask[:, -inputs_embeds.shape[1] :].bool()
    return torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)


def count_tokens(
    is_token: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int | torch.Tensor
) -> torch.Tensor:
    """Positions `(batch, length)`, counted from 0 without padding and continuing after those in the cache."""
    length = is_token.shape[1]
    if attention_mask is not None and attention_mask.dim() == 2 and attention_mask.shape[1] > length:
        past_length = attention_mask[:, :-length].sum(dim=1, keepdim=True)
    return (is_token.cumsum(dim=1) - 1 + past_length).clamp(min=0)
