"""Peak memory of one training step, compared with MarianMT's: 6+6/512, V 37,000, about 8,192 tokens of each side.

Run it with `run.py`; as a program of its own it measures one model.
"""

import argparse
import json
import time

import torch
from measuring import Table, compare, in_own_process, peak_memory

CONTESTANTS = ("MarianMT", "hf_vaswani")
VOCABULARY, SENTENCES, LENGTH = 37_000, 256, 32
SIZE = {
    "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "vocab_size": VOCABULARY,
}  # fmt: skip


def tables(options: argparse.Namespace) -> list[Table]:
    return [
        compare(
            f"One training step, 6+6/512, V {VOCABULARY:,}, {SENTENCES * LENGTH:,} tokens of each side, {precision}",
            "steps", CONTESTANTS, 1, lambda name, precision=precision: in_own_process(__file__, name, precision),
        )
        for precision in ("fp32", "bf16")
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("precision", choices=("fp32", "bf16"))
    options = parser.parse_args()
    ids = torch.randint(10, VOCABULARY - 10, (2, SENTENCES, LENGTH))
    if options.contestant == "MarianMT":
        from transformers import MarianConfig, MarianMTModel

        model = MarianMTModel(
            MarianConfig(**SIZE, max_position_embeddings=512, pad_token_id=0, decoder_start_token_id=0)
        )
    else:
        from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration

        model = VaswaniForConditionalGeneration(VaswaniConfig(**SIZE))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
        loss = model(input_ids=ids[0], attention_mask=torch.ones_like(ids[0]), labels=ids[1]).loss
    loss.backward()
    optimizer.step()
    print(json.dumps({"speed": 1 / (time.perf_counter() - start), "memory": peak_memory()}))


if __name__ == "__main__":
    main()
