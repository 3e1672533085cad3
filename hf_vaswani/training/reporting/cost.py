"""The cost of a run in floating-point operations, by the usual estimate (Table 2 of the paper uses another)."""

from ...core.modeling_vaswani import VaswaniForConditionalGeneration


def training_flops(
    model: VaswaniForConditionalGeneration, source_tokens: int, target_tokens: int, passes: float = 1
) -> float | None:
    """Estimate training FLOPs as 6·N·D: six per weight of a matrix and token that passes it, two of them forward.

    Source tokens pass through the encoder's layers and the key and value projections of cross-attention; target tokens
    pass through the rest of the decoder's layers and the output projection. The cost of attention itself, norms and
    embeddings is left out.

    Args:
        source_tokens, target_tokens: seen in training, without padding.
        passes: of each token through the network, averaged over all steps.

    Returns:
        The FLOPs; `None` if training uses LayerDrop, for which the estimate would be too high.
    """
    config = model.config
    if config.encoder_layerdrop or config.decoder_layerdrop:
        return None
    source = target = 0
    for name, parameter in model.named_parameters():
        if parameter.ndim != 2 or ".layers." not in name:
            continue
        if ".encoder.layers." in name or name.endswith(("encoder_attn.k_proj.weight", "encoder_attn.v_proj.weight")):
            source += parameter.numel()
        else:
            target += parameter.numel()
    target += model.get_output_embeddings().weight.numel()
    return 6.0 * passes * (source * source_tokens + target * target_tokens)
