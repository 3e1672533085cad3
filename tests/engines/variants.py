"""Configs that each need a different way of exporting a model, and helpers shared by the tests of all engines."""

import torch

SOURCES = torch.tensor([[5, 6, 7, 8, 9, 2], [20, 21, 2, 0, 0, 0], [30, 2, 0, 0, 0, 0]])
MASK = (SOURCES != 0).long()
# Each is exported differently.
VARIANTS = {
    "paper": {},
    "pre-norm": {"norm_position": "pre"},
    "pre-norm without final norm": {"norm_position": "pre", "final_norm": False},
    "learned positions": {"position_type": "learned", "max_position_embeddings": 50},
    "no positions": {"position_type": "none"},
    "sinusoids of fairseq": {"sinusoid_layout": "halves", "sinusoid_exponent": "tensor2tensor", "sinusoid_offset": 1},
    "positions that skip padding": {"positions_skip_padding": True},
    "no biases": {"attention_bias": False, "ffn_bias": False},
    "bias on the logits": {"output_bias": True},
    "untied": {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False},
    "zero start": {"decoder_start_embedding": "zero"},
    "gelu": {"activation_function": "gelu"},
    "silu": {"activation_function": "silu"},
    "no scale": {"scale_embedding": False},
    "layer_norm_eps": {"layer_norm_eps": 1e-3},
    "layers and heads": {"encoder_layers": 1, "decoder_layers": 3, "encoder_attention_heads": 4},
}


def up_to_end(sequences):
    """Token ids of each output up to its first end token."""
    rows = [ids[1:] for ids in sequences.tolist()]
    return [ids[: ids.index(2)] if 2 in ids else ids for ids in rows]


def texts_of(results):
    return [r["translation_text"] for result in results for r in (result if isinstance(result, list) else [result])]


def scores_of(results):
    return torch.tensor([r["score"] for one in results for r in (one if isinstance(one, list) else [one])])
