"""Peak memory of one training step, compared with MarianMT's: 6+6/512, V 37,000, 8,192 tokens of each side.

MarianMT's step is one forward pass, as in the Trainer; this package's is split into several, as in its training.

Run it with `run.py`; on its own, it measures one model.
"""

import argparse
import json
import time

import torch
from accelerate import Accelerator
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
            "target tokens", CONTESTANTS, 1,
            lambda name, precision=precision: in_own_process(__file__, name, precision),
        )
        for precision in ("fp32", "bf16")
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("precision", choices=("fp32", "bf16"))
    options = parser.parse_args()
    source, labels = torch.randint(10, VOCABULARY - 10, (2, SENTENCES, LENGTH))
    batch = {"input_ids": source, "attention_mask": torch.ones_like(source), "labels": labels}
    if options.contestant == "MarianMT":
        from transformers import MarianConfig, MarianMTModel

        model = MarianMTModel(
            MarianConfig(**SIZE, max_position_embeddings=512, pad_token_id=0, decoder_start_token_id=0)
        )
        parts = [batch]
    else:
        from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
        from hf_vaswani.training.optimization.step_batches import pass_tokens, split_batch

        model = VaswaniForConditionalGeneration(VaswaniConfig(**SIZE))
        parts = split_batch(batch, pass_tokens(Accelerator(cpu=True)))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    start = time.perf_counter()
    for part in parts:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model(**part).loss * len(part["labels"]) / SENTENCES
        loss.backward()
    optimizer.step()
    speed = SENTENCES * LENGTH / (time.perf_counter() - start)
    print(json.dumps({"speed": speed, "memory": peak_memory()}))


if __name__ == "__main__":
    main()
