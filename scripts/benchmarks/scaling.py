"""How the cost of a token grows with sentence length, tokens per batch, vocabulary and model: training and search.

One size at a time is varied, from a model of 4+4 layers and d_model 128. Weights are random, and every search
generates as many tokens as its source has, so that only the sizes differ.

Run it with `run.py`; on its own, it measures one of the settings.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace

import torch
from measuring import Table, compare, in_own_process, peak_memory

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration

BEAMS, SECONDS = 4, 4


@dataclass(frozen=True)
class Setting:
    """Sizes of a batch and a model."""

    length: int = 16
    tokens: int = 2048
    vocab_size: int = 8000
    d_model: int = 128
    layers: int = 4


VARIED = {
    "length": (8, 16, 32, 64, 128, 256),
    "tokens": (256, 1024, 2048, 8192),
    "vocab_size": (2000, 8000, 32000),
    "d_model": (64, 128, 256, 512),
    "layers": (2, 4, 8),
}
SETTINGS = {
    f"{name} {value}": replace(Setting(), **{name: value}) for name, values in VARIED.items() for value in values
}


def tables(options: argparse.Namespace) -> list[Table]:
    base = "tokens 2048"
    names = [base, *(name for name in SETTINGS if SETTINGS[name] != Setting())]
    return [
        compare(
            f"{work}: length 16, tokens 2048, vocab_size 8000, d_model 128, layers 4, unless it says otherwise",
            "tokens", names, 1, lambda name, work=work: in_own_process(__file__, work, name),
        )
        for work in ("training", "search")
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=("training", "search"))
    parser.add_argument("setting", choices=SETTINGS)
    options = parser.parse_args()
    setting = SETTINGS[options.setting]
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            vocab_size=setting.vocab_size, d_model=setting.d_model,
            encoder_layers=setting.layers, decoder_layers=setting.layers,
            encoder_attention_heads=setting.d_model // 32, decoder_attention_heads=setting.d_model // 32,
            encoder_ffn_dim=4 * setting.d_model, decoder_ffn_dim=4 * setting.d_model,
        )
    )  # fmt: skip
    sentences = max(1, setting.tokens // setting.length)
    source, labels = torch.randint(10, setting.vocab_size - 10, (2, sentences, setting.length))
    run = searching(model, source) if options.work == "search" else training(model, source, labels)
    run()
    start, rounds = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        run()
        rounds += 1
    speed = rounds * source.numel() / (time.perf_counter() - start)
    print(json.dumps({"speed": speed, "memory": peak_memory()}))


def training(model, source, labels):
    optimizer = torch.optim.Adam(model.train().parameters(), 1e-5, fused=True)
    mask = torch.ones_like(source)

    def step():
        model(input_ids=source, attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def searching(model, source):
    length = source.shape[1]
    settings = {"num_beams": BEAMS, "min_new_tokens": length, "max_new_tokens": length}
    model.eval()
    return lambda: model.generate(source, **settings)


if __name__ == "__main__":
    main()
