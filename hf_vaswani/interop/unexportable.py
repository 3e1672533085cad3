"""Features of a model that no other system or engine can represent."""

from ..core.modeling_vaswani import VaswaniForConditionalGeneration


def unexportable(model: VaswaniForConditionalGeneration) -> dict[str, bool]:
    """A description of each feature that cannot be exported → whether the model has it."""
    return {
        "an adapter (merge it: train it with --merge true, or call PEFT's merge_and_unload())": hasattr(
            model, "peft_config"
        ),
        "quantized weights (export the model that was quantized)": hasattr(model.config, "quantization_config"),
        "no decoder_start_token_id": model.config.decoder_start_token_id is None,
    }


__all__ = ["unexportable"]
