"""Training speed by default, compared with Seq2SeqTrainer + MarianMT and with torch.nn.Transformer in a plain loop.

All contestants train a model of the same size on the same token ids, with the same dropout and label smoothing, and
batches of the same mean number of target tokens. Only real target tokens count, without padding. The share of the peak
is based on the matrix products of the layers, three times the forward pass's, without the attention scores.

Run it with `run.py`, which interleaves the contestants; on its own, it measures one of them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path

import torch
import yaml
from measuring import (
    DEVICE,
    Table,
    compare,
    environment,
    in_own_process,
    peak_memory,
    product_peak,
    wait_for_device,
)

# Layers of each stack, d_model, heads, width of the feed-forward network.
SIZES = {"4+4/128": (4, 128, 4, 512), "6+6/512": (6, 512, 8, 2048)}
VOCABULARY = 8000
TOKENS = 2048
CONTESTANTS = (
    "MarianMT, random batches, fp32", "MarianMT, random batches, bf16",
    "MarianMT, grouped by length, fp32", "MarianMT, grouped by length, bf16",
    "torch.nn.Transformer, fp32", "torch.nn.Transformer, bf16",
    "hf_vaswani, fp32", "hf_vaswani, bf16", "hf_vaswani as it comes",
)  # fmt: skip
# Only if they are named: compiling takes minutes.
COMPILED = ("MarianMT, grouped by length, bf16, compiled", "hf_vaswani, bf16, compiled")
WARM_UP = 4
DROPOUT = SMOOTHING = 0.1


def tables(folder: Path, options: argparse.Namespace) -> list[Table]:
    """One table for each size."""
    if not (folder / "ids.json").exists():
        prepare(folder, options)
    contestants = options.contestants or CONTESTANTS
    return [
        compare(
            f"Training, {size}, V {options.vocabulary:,}, {options.tokens:,} target tokens a step", "target tokens",
            contestants, options.rounds,
            lambda name, size=size: in_own_process(
                __file__, name, "--folder", folder, "--size", size, "--seconds", options.seconds,
                "--tokens", options.tokens, "--vocabulary", options.vocabulary,
            ),
        )
        for size in options.sizes
    ]  # fmt: skip


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """Write the text, a tokenizer, and the token ids that all contestants read."""
    from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
    from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer

    sides = write_sides(folder, options)
    tokenizer = train_tokenizer(list(zip(*sides)), TokenizerArguments(vocab_size=options.vocabulary))
    tokenizer.save_pretrained(folder / "tokenizer")
    ids = [tokenizer(lines).input_ids for lines in sides]
    (folder / "ids.json").write_text(json.dumps(list(zip(*ids))))


def write_sides(folder: Path, options: argparse.Namespace) -> list[list[str]]:
    """The lines of both sides of the text, after writing them to the folder."""
    sides = [Path(path).read_text(encoding="utf-8").split("\n")[:-1] for path in (options.source, options.target)]
    for name, lines in zip(("source", "target"), sides):
        (folder / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return sides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contestant", choices=(*CONTESTANTS, *COMPILED))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--vocabulary", type=int, required=True)
    options = parser.parse_args()
    dtype = torch.bfloat16 if "bf16" in options.contestant else torch.float32
    if options.contestant.startswith("hf_vaswani"):
        speed, memory, precision = train_hf_vaswani(options)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        notes = precision
    else:
        pairs = json.loads((options.folder / "ids.json").read_text())
        train = train_marian if options.contestant.startswith("MarianMT") else train_plain
        speed, memory, notes = train(pairs, options, dtype), peak_memory(), ""
    share = speed * flops_per_target_token(options) / product_peak(dtype)
    measured = {"memory": memory} if DEVICE == "cpu" else {}  # a GPU's is measured from outside
    print(json.dumps({"speed": speed, **measured, "peak_share": share, "notes": notes}))


def flops_per_target_token(options: argparse.Namespace) -> float:
    """FLOPs of a step's matrix products per target token: per weight and token, two forward and four backward."""
    layers, d_model, _, ffn_dim = SIZES[options.size]
    pairs = json.loads((options.folder / "ids.json").read_text())
    source, target = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    encoder = layers * (4 * d_model**2 + 2 * d_model * ffn_dim)
    keys_and_values = layers * 2 * d_model**2
    decoder = layers * (6 * d_model**2 + 2 * d_model * ffn_dim) + d_model * options.vocabulary
    return 6 * (decoder + (encoder + keys_and_values) * source / target)


def train_hf_vaswani(options: argparse.Namespace) -> tuple[float, float, str]:
    """Train with the command, with no setting for speed except the precision that a contestant may name."""
    layers, d_model, heads, ffn_dim = SIZES[options.size]
    sizes = {"layers": layers, "attention_heads": heads, "ffn_dim": ffn_dim}
    model = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}
    training = {}
    if not options.contestant.endswith("as it comes"):
        training["mixed_precision"] = "bf16" if "bf16" in options.contestant else "no"
        training["torch_compile"] = options.contestant in COMPILED
    tokenizer = {"path": str(options.folder / "tokenizer")}
    model |= {"d_model": d_model, "dropout": DROPOUT, "label_smoothing": SMOOTHING}
    data = {"source_language": "xx", "target_language": "yy"}
    return run_recipe(options, {"data": data, "tokenizer": tokenizer, "model": model, "training": training})


def run_recipe(options: argparse.Namespace, sections: dict[str, dict]) -> tuple[float, float, str]:
    """Train on the folder's text for some seconds; the speed, the memory, and the precision."""
    data = {"validation_share": 0.01, **sections["data"]}
    data |= {f"train_{side}": str(options.folder / f"train.{side}") for side in ("source", "target")}
    training = {
        "max_tokens": options.tokens, "max_steps": 100_000, "max_minutes": options.seconds / 60, "logging_steps": 5,
        "eval_steps": 100_000, "save_steps": 100_000, "average_last": 1, "eval_sentences": 0, **sections["training"],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        training["output_dir"] = f"{folder}/output"
        recipe = Path(folder) / "recipe.yaml"
        recipe.write_text(yaml.safe_dump({**sections, "data": data, "training": training}))
        command = [sys.executable, "-m", "hf_vaswani", "train", str(recipe)]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
        )
        memory = 0.0
        while process.poll() is None:
            memory = max(memory, memory_of(process.pid))
            time.sleep(0.5)
        if process.returncode:
            raise SystemExit(process.stderr.read()[-4000:])
        log = [json.loads(line) for line in (Path(folder) / "output" / "log.jsonl").read_text().splitlines()]
        precision = yaml.safe_load((Path(folder) / "output" / "training_recipe.yaml").read_text())
    speeds = [entry["target_tokens_per_second"] for entry in log if "target_tokens_per_second" in entry]
    # During the first steps, the run tries out how many threads are fastest.
    return statistics.median(speeds[len(speeds) // 4 :]), memory, precision["launched"]["mixed_precision"]


def memory_of(process: int) -> float:
    """Peak memory of another process in MiB; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def sentences_a_batch(targets: list, tokens: int) -> int:
    """The number of sentences that have this many target tokens on average."""
    return round(tokens * len(targets) / sum(map(len, targets)))


def train_marian(pairs: list, options: argparse.Namespace, dtype: torch.dtype) -> float:
    """MarianMT with transformers' Seq2SeqTrainer."""
    from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

    layers, d_model, heads, ffn_dim = SIZES[options.size]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.folder / "tokenizer")
    model = MarianMTModel(
        MarianConfig(
            vocab_size=len(tokenizer), d_model=d_model, encoder_layers=layers, decoder_layers=layers,
            encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=ffn_dim,
            decoder_ffn_dim=ffn_dim, max_position_embeddings=512, activation_function="relu", dropout=DROPOUT,
            scale_embedding=True, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id, forced_eos_token_id=tokenizer.eos_token_id,
        )
    )  # fmt: skip
    columns = {"input_ids": [pair[0] for pair in pairs], "labels": [pair[1] for pair in pairs]}
    columns["attention_mask"] = [[1] * len(ids) for ids in columns["input_ids"]]
    return run_trainer(
        options, model, tokenizer, columns, learning_rate=1e-3, label_smoothing_factor=SMOOTHING,
        bf16=dtype == torch.bfloat16, torch_compile=options.contestant in COMPILED,
    )  # fmt: skip


def run_trainer(options: argparse.Namespace, model, tokenizer, columns: dict[str, list], **arguments) -> float:
    """Train with transformers' Seq2SeqTrainer for some seconds; the speed."""
    from datasets import Dataset
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

    counted = Counter(DataCollatorForSeq2Seq(tokenizer, model=model), options.seconds)

    class Clock(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = counted.step()

    grouped = "grouped" in options.contestant
    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            folder, per_device_train_batch_size=sentences_a_batch(columns["labels"], options.tokens),
            num_train_epochs=1000, train_sampling_strategy="group_by_length" if grouped else "random",
            use_cpu=DEVICE == "cpu", report_to=[], save_strategy="no", logging_steps=100_000, disable_tqdm=True,
            **arguments,
        )  # fmt: skip
        trainer = Seq2SeqTrainer(
            model, arguments, train_dataset=Dataset.from_dict(columns), data_collator=counted, callbacks=[Clock()]
        )
        trainer.train()
    return counted.speed()


class Counter:
    """A collator that counts target tokens, and a clock for the steps that process them."""

    def __init__(self, collate, seconds: float):
        self.collate, self.seconds = collate, seconds
        self.sizes: list[int] = []
        self.ends: list[float] = []

    def __call__(self, features):
        batch = self.collate(features)
        self.sizes.append(int((batch["labels"] != -100).sum()))
        return batch

    def step(self) -> bool:
        """Record the end of a step, and return whether time is up."""
        if len(self.ends) in (0, WARM_UP - 1) or time.perf_counter() - self.ends[0] > self.seconds:
            wait_for_device()
        self.ends.append(time.perf_counter())
        return self.ends[-1] - self.ends[0] > self.seconds and len(self.ends) > WARM_UP + 1

    def speed(self) -> float:
        """Target tokens per second after the warm-up. The collator may be a batch ahead of the steps."""
        return sum(self.sizes[WARM_UP : len(self.ends)]) / (self.ends[-1] - self.ends[WARM_UP - 1])


def train_plain(pairs: list, options: argparse.Namespace, dtype: torch.dtype) -> float:
    """torch.nn.Transformer, random padded batches, Adam: a typical tutorial."""
    from torch import nn
    from torch.nn.utils.rnn import pad_sequence

    layers, d_model, heads, ffn_dim = SIZES[options.size]
    torch.manual_seed(1)
    transformer = nn.Transformer(d_model, heads, layers, layers, ffn_dim, DROPOUT, batch_first=True).to(DEVICE)
    embedding = nn.Embedding(options.vocabulary + 8, d_model, padding_idx=0, device=DEVICE)
    positions = nn.Embedding(512, d_model, device=DEVICE)
    weights = chain(transformer.parameters(), embedding.parameters(), positions.parameters())
    optimizer = torch.optim.Adam(weights, 1e-3, fused=True)
    loss_function = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=SMOOTHING)
    size = sentences_a_batch([target for _, target in pairs], options.tokens)

    def embed(ids):
        return embedding(ids) * d_model**0.5 + positions(torch.arange(ids.shape[1], device=DEVICE))

    def batches():
        while True:
            order = torch.randperm(len(pairs)).tolist()
            for start in range(0, len(order) - size, size):
                yield [pairs[i] for i in order[start : start + size]]

    def collate(batch):
        # Ids are shifted by one so that 0 is padding, whatever the tokenizer's padding id is.
        return {
            side: pad_sequence([torch.tensor(pair[i]) + 1 for pair in batch], batch_first=True, padding_value=0)
            for i, side in enumerate(("source", "labels"))
        }

    counted = Counter(collate, options.seconds)
    for batch in batches():
        inputs = counted(batch)
        counted.sizes[-1] = int((inputs["labels"] > 0).sum())
        source, labels = inputs["source"].to(DEVICE), inputs["labels"].to(DEVICE)
        target = nn.functional.pad(labels, (1, -1))
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=DEVICE).isinf()
        padding = {"src_key_padding_mask": source == 0, "memory_key_padding_mask": source == 0}
        with torch.autocast(DEVICE, dtype, enabled=dtype != torch.float32):
            states = transformer(embed(source), embed(target), tgt_mask=mask, tgt_is_causal=True, **padding)
            logits = states @ embedding.weight.T
        loss = loss_function(logits.float().flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if counted.step():
            break
    return counted.speed()


if __name__ == "__main__":
    main()
