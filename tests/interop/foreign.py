"""Random models of other systems, far enough from their initial values for every weight to matter."""

import inspect
import random

import torch
from transformers import FSMTConfig, FSMTForConditionalGeneration, GenerationConfig, MarianConfig, MarianMTModel


def randomized(model: torch.nn.Module, seed: int, scale: float = 0.3) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if "embed_positions" not in name:
                tensor.add_(torch.randn(tensor.shape, generator=generator) * scale)
    return model.eval()


def random_sizes(choose: random.Random, heads: int) -> dict[str, int]:
    """Widths, depths and heads that differ between encoder and decoder."""
    return {
        "d_model": heads * 2 * choose.randint(2, 5),
        "encoder_layers": choose.randint(1, 3),
        "decoder_layers": choose.randint(1, 3),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": choose.choice([1, 2]),
        "encoder_ffn_dim": choose.randint(5, 40),
        "decoder_ffn_dim": choose.randint(5, 40),
    }


def random_marian(seed: int, **changes) -> MarianMTModel:
    choose = random.Random(seed)
    heads = choose.choice([2, 4])
    share = seed % 2 == 0
    vocab_size = choose.randint(30, 50)
    target_size = vocab_size if share else choose.randint(30, 50)
    padding = choose.choice([0, min(vocab_size, target_size) - 1])
    fields = {
        "vocab_size": vocab_size,
        "decoder_vocab_size": target_size,
        **random_sizes(choose, heads),
        "activation_function": ("relu", "gelu", "swish")[seed % 3],
        "share_encoder_decoder_embeddings": share,
        "tie_word_embeddings": seed % 4 < 2,
        "scale_embedding": choose.random() < 0.5,
        "pad_token_id": padding,
        "decoder_start_token_id": padding,
        "eos_token_id": 1,
        "forced_eos_token_id": 1,
        "max_position_embeddings": 64,
    }
    torch.manual_seed(seed)
    return randomized(MarianMTModel(MarianConfig(**{**fields, **changes})), seed)


def random_fsmt(seed: int, **changes) -> FSMTForConditionalGeneration:
    choose = random.Random(seed)
    heads = choose.choice([2, 4])
    fields = {
        "src_vocab_size": 35,
        "tgt_vocab_size": choose.choice([35, 42]),
        **random_sizes(choose, heads),
        "activation_function": ("relu", "gelu", "swish")[seed % 3],
        "scale_embedding": choose.random() < 0.5,
        "max_position_embeddings": 64,
    }
    torch.manual_seed(seed)
    return randomized(FSMTForConditionalGeneration(FSMTConfig(**{**fields, **changes})), seed)


def random_batch(padding: int, start: int, vocab_size: int, side: str = "right") -> dict[str, torch.Tensor]:
    """Three sources of different lengths and their mask, padded on one side, and targets after the start token."""
    lengths, longest = torch.tensor([9, 4, 6]), 9
    generator = torch.Generator().manual_seed(vocab_size)
    ids = torch.randint(3, vocab_size - 1, (3, longest), generator=generator)
    places = torch.arange(longest)
    mask = places < lengths[:, None] if side == "right" else places >= longest - lengths[:, None]
    targets = torch.randint(3, vocab_size - 1, (3, 7), generator=generator)
    targets[:, 0] = start
    return {
        "input_ids": ids.masked_fill(~mask, padding),
        "attention_mask": mask.long(),
        "decoder_input_ids": targets,
    }


def search(config, num_beams: int) -> GenerationConfig:
    """The same search for both models."""
    return GenerationConfig(
        num_beams=num_beams,
        max_new_tokens=15,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )


def counts_positions(foreign) -> bool:
    """Whether a model continues its positions from the cache; older versions of FSMT started over at each step."""
    if not isinstance(foreign, FSMTForConditionalGeneration):
        return True
    positions = foreign.model.decoder.embed_positions.forward
    return "past_key_values_length" in inspect.signature(positions).parameters


def assert_same_model(foreign, imported, batch: dict[str, torch.Tensor]) -> None:
    """Compare logits to within 1e-5, and greedy and beam search token for token."""
    with torch.no_grad():
        # With a cache, FSMT takes its input for a single step and masks nothing.
        expected = foreign(**batch, use_cache=False).logits
        torch.testing.assert_close(imported(**batch).logits, expected, atol=1e-5, rtol=1e-5)
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    vocab_size = foreign.config.vocab_size
    # Beam search of older versions uses the source's vocabulary size for the target.
    foreign.config.vocab_size = imported.config.decoder_vocab_size
    for num_beams in (1, 4) if counts_positions(foreign) else ():
        settings = search(foreign.config, num_beams)
        expected = foreign.generate(**source, generation_config=settings)
        assert torch.equal(imported.generate(**source, generation_config=settings), expected)
    foreign.config.vocab_size = vocab_size
