"""Speed and memory of translation, compared with transformers' MarianMTModel and CTranslate2 on the same weights.

    python scripts/benchmarks/translation.py --model outputs/my_model --source test.de [--beams 4] [--threads 2]

The trained model is grown to the sizes 4+4/128 and 6+6/512 with 8,000 tokens without changing its function: all sizes
give the same translations, with realistic lengths. All engines use the same beam size and transformers' search
settings, so that MarianMT and this package give the same translations, as the table shows. MarianMT gets batches of 32
in file order, the common use of `generate()`; CTranslate2 gets a worker with one thread for each core, which is faster
than one worker with all of them. Each repetition times all engines in turn; the table gives the median ratio to
MarianMT within a repetition. Only one engine exists at a time, since the threads of an idle CTranslate2 keep a core
busy and would slow down the others. Memory is the peak of a process that only translates with one engine, without that
of its workers (Linux only).
"""

import argparse
import copy
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel, PreTrainedTokenizerFast

import hf_vaswani
from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from hf_vaswani.cli import main as command
from hf_vaswani.core.modeling_layers import sinusoidal_positions
from hf_vaswani.interop import export_marian
from hf_vaswani.translation.load import load

# Layers of each stack, d_model, width of the feed-forward network, vocabulary.
SIZES = {"4+4/128": (4, 128, 512, 8000), "6+6/512": (6, 512, 2048, 8000)}
HEAD_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
POSITIONS = 256
ENGINES = ("marian", "pipeline", "command", "pipeline bf16", "pipeline int8", "ctranslate2", "ctranslate2 int8")
LIMIT = 200


def grow(model: VaswaniForConditionalGeneration, size: str) -> VaswaniForConditionalGeneration:
    """A larger model that computes the same function, and so gives the same translations as the trained one.

    The residual stream holds several copies of the old one; matrices read their mean and write all of them. New units
    of the feed-forward networks and new tokens are never used. New layers add nothing: a norm that follows a norm
    without gain and bias changes nothing, so the last norm of each stack gets the gain and bias of the old last one.
    """
    layers, d_model, ffn_dim, vocab_size = SIZES[size]
    old = model.config
    copies = d_model // old.d_model
    heads = old.encoder_attention_heads * (1 if copies == 1 else 2)
    sizes = {"layers": layers, "attention_heads": heads, "ffn_dim": ffn_dim}
    stacks = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}
    fields = {"d_model": d_model, "vocab_size": vocab_size, "decoder_vocab_size": vocab_size, "output_bias": True}
    fields |= {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, "scale_embedding": False}
    fields |= {"position_type": "learned", "max_position_embeddings": POSITIONS}
    config = VaswaniConfig(**{**old.to_diff_dict(), **stacks, **fields})
    grown = VaswaniForConditionalGeneration(config).eval()
    weights = {name: torch.zeros_like(tensor) for name, tensor in grown.state_dict().items()}
    for name, tensor in model.state_dict().items():
        if name.startswith("model.shared") or name not in weights:
            continue
        new = widened(name, tensor, copies, old)
        weights[name][tuple(slice(n) for n in new.shape)] = new
    weights["lm_head.bias"][old.decoder_vocab_size :] = -1e4
    table = sinusoidal_positions(torch.arange(POSITIONS), old.d_model, old.sinusoid_layout).float().repeat(1, copies)
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_positions.weight"] = table
        norms = [name for name in weights if name.startswith(f"model.{stack}.layers") and "layer_norm.weight" in name]
        last = f"model.{stack}.layers.{getattr(old, f'{stack}_layers') - 1}.final_layer_norm"
        end = f"model.{stack}.layers.{layers - 1}.final_layer_norm"
        for name in norms:
            if int(name.split(".")[3]) >= getattr(old, f"{stack}_layers"):
                weights[name].fill_(1)
        if end != last:
            for part, neutral in (("weight", 1), ("bias", 0)):
                weights[f"{end}.{part}"] = weights[f"{last}.{part}"].clone()
                weights[f"{last}.{part}"].fill_(neutral)
    grown.load_state_dict(weights)
    grown.generation_config = model.generation_config
    return grown


def widened(name: str, tensor: torch.Tensor, copies: int, old: VaswaniConfig) -> torch.Tensor:
    """A weight for `copies` copies of the residual stream.

    Attention has twice as many heads, half of them unused, and longer queries and keys.
    """
    kind = name.split(".")[-2]
    if kind == "embed_tokens":
        return (tensor * (old.d_model**0.5 if old.scale_embedding else 1)).repeat(1, copies)
    if "layer_norm" in kind:
        return tensor.repeat(copies)
    reads = kind in ("q_proj", "k_proj", "v_proj", "fc1", "lm_head")
    if tensor.dim() == 1:
        return split_heads(tensor, kind, copies, old) if kind in HEAD_PROJECTIONS else (
            tensor if reads else tensor.repeat(copies)
        )  # fmt: skip
    if reads:
        tensor = tensor.repeat(1, copies) / copies
        return split_heads(tensor, kind, copies, old) if kind in HEAD_PROJECTIONS else tensor
    if kind == "out_proj":
        tensor = split_heads(tensor.T, "v_proj", copies, old).T
    return tensor.repeat(copies, 1)


def split_heads(rows: torch.Tensor, kind: str, copies: int, old: VaswaniConfig) -> torch.Tensor:
    """Rows of a head projection, `(heads * d_k, …)`, moved to their positions among longer heads."""
    if copies == 1:
        return rows
    old_length, new_length = (
        old.d_model // old.encoder_attention_heads,
        copies * old.d_model // (2 * old.encoder_attention_heads),
    )
    heads = rows.unflatten(0, (old.encoder_attention_heads, old_length))
    if kind == "q_proj":  # longer queries are divided by a larger root
        heads = heads * (new_length / old_length) ** 0.5
    new = heads.new_zeros(2 * old.encoder_attention_heads, new_length, *heads.shape[2:])
    new[: len(heads), :old_length] = heads
    return new.flatten(0, 1)


def as_marian(model: VaswaniForConditionalGeneration) -> MarianMTModel:
    """A MarianMT with the same function: one with sinusoids, whose table is then overwritten."""
    config = VaswaniConfig(
        **{**model.config.to_diff_dict(), "position_type": "sinusoidal", "sinusoid_layout": "halves"}
    )
    twin = VaswaniForConditionalGeneration(config).eval()
    twin.load_state_dict(model.state_dict(), strict=False)
    twin.generation_config = copy.deepcopy(model.generation_config)
    marian = export_marian(twin)
    set_positions(marian, model.model.encoder.embed_positions.weight)
    return marian


@torch.no_grad()
def set_positions(marian: MarianMTModel, table: torch.Tensor) -> None:
    for stack in (marian.model.encoder, marian.model.decoder):
        stack.embed_positions.weight[: len(table)] = table


def prepare(folder: Path, model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """The same weights for all engines."""
    model.save_pretrained(folder / "vaswani")
    tokenizer.save_pretrained(folder / "vaswani")
    marian = as_marian(model)
    marian.generation_config.update(max_length=LIMIT, max_new_tokens=None)
    marian.save_pretrained(folder / "marian")
    try:
        from ctranslate2.converters.transformers import BartLoader
    except ImportError:
        print("ctranslate2 is not installed: its row is left out (pip install ctranslate2)", file=sys.stderr)
        return
    marian.config.normalize_before = marian.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(marian)
    named = tokenizer.convert_ids_to_tokens(range(model.config.vocab_size))
    tokens = [token or f"<unused{i}>" for i, token in enumerate(named)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (
        tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token,
    )  # fmt: skip
    spec.config.decoder_start_token = tokenizer.convert_ids_to_tokens(model.config.decoder_start_token_id)
    spec.validate()
    spec.optimize()
    (folder / "ctranslate2").mkdir()
    spec.save(str(folder / "ctranslate2"))


def make_engine(name: str, folder: Path, beams: int, threads: int) -> Callable[[list[str]], list[str]]:
    """A function that translates a list of texts."""
    tokenizer = AutoTokenizer.from_pretrained(folder / "vaswani")
    search = {"num_beams": beams, "length_penalty": 1.0, "early_stopping": False}
    if name == "marian":
        model = MarianMTModel.from_pretrained(folder / "marian").eval()
        weights = load_file(folder / "vaswani" / "model.safetensors")
        set_positions(model, weights["model.encoder.embed_positions.weight"])

        @torch.inference_mode()
        def translate(texts):
            translations = []
            for start in range(0, len(texts), 32):
                inputs = tokenizer(texts[start : start + 32], return_tensors="pt", padding=True)
                output = model.generate(inputs.input_ids, attention_mask=inputs.attention_mask, **search)
                translations += tokenizer.batch_decode(output, skip_special_tokens=True)
            return translations

    elif name.startswith("ctranslate2"):
        import ctranslate2

        translator = ctranslate2.Translator(
            str(folder / "ctranslate2"), inter_threads=threads, intra_threads=1,
            compute_type="int8" if name.endswith("int8") else "float32",
        )  # fmt: skip

        def translate(texts):
            tokens = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(texts).input_ids]
            results = translator.translate_batch(
                tokens, beam_size=beams, length_penalty=1, max_batch_size=2048, batch_type="tokens",
                max_decoding_length=LIMIT,
            )  # fmt: skip
            ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
            return tokenizer.batch_decode(ids, skip_special_tokens=True)

    elif name == "command":

        def translate(texts):
            source, target = folder / "source.txt", folder / "target.txt"
            source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            options = ["--input", str(source), "--output", str(target), "--overwrite", "--num_beams", str(beams)]
            if command(["translate", str(folder / "vaswani"), *options]):
                raise SystemExit("hf-vaswani translate failed")
            return target.read_text(encoding="utf-8").split("\n")[:-1]

    else:
        from transformers import pipeline

        dtype = torch.bfloat16 if name.endswith("bf16") else torch.float32
        model = AutoModelForSeq2SeqLM.from_pretrained(folder / "vaswani", dtype=dtype)
        quantize = "int8" if name.endswith("int8") else None
        translator = pipeline("translation", model=model, tokenizer=tokenizer, quantize=quantize)

        def translate(texts):
            return [result["translation_text"] for result in translator(texts, **search, length_penalty_type="length")]

    return translate


def peak_memory(name: str, folder: Path, options: argparse.Namespace) -> float:
    """Peak memory in MiB of a process with one engine."""
    arguments = ["--peak_of", name, "--folder", str(folder), "--beams", str(options.beams)]
    arguments += ["--threads", str(options.threads)]
    output = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output.splitlines()[-1])


def translate_once(name: str, folder: Path, options: argparse.Namespace) -> None:
    texts = (folder / "texts.txt").read_text(encoding="utf-8").split("\n")[:-1]
    make_engine(name, folder, options.beams, options.threads)(texts)
    # Not ru_maxrss, which a process inherits from the one that started it.
    [peak] = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
    print(int(peak) / 1024)


def compare(title: str, folder: Path, texts: list[str], options: argparse.Namespace) -> None:
    """Time all engines in turn and print the table of one model."""
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    names = [
        name for name in options.engines if not name.startswith("ctranslate2") or (folder / "ctranslate2").exists()
    ]
    outputs, times = {}, {name: [] for name in names}
    for _ in range(options.repetitions):
        for name in names:
            engine = make_engine(name, folder, options.beams, options.threads)
            engine(texts[:64])
            start = time.perf_counter()
            outputs[name] = engine(texts)
            times[name].append(time.perf_counter() - start)
            del engine
            gc.collect()
    words = {name: sum(len(text.split()) for text in output) / len(texts) for name, output in outputs.items()}
    print(f"\n{title}: {len(texts)} sentences, beam {options.beams}, {options.threads} threads")
    print("| engine | sentences/s | ratio to MarianMT | peak MiB | same as MarianMT | words a sentence |")
    print("|---|---|---|---|---|---|")
    for name in names:
        ratio = statistics.median(base / own for base, own in zip(times[names[0]], times[name]))
        same = sum(a == b for a, b in zip(outputs[names[0]], outputs[name])) / len(texts)
        memory = "–" if options.no_memory else f"{peak_memory(name, folder, options):.0f}"
        speed = len(texts) / statistics.median(times[name])
        print(f"| {name} | {speed:.1f} | {ratio:.2f} | {memory} | {same:.1%} | {words[name]:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", help="file of sentences")
    parser.add_argument("--model", default="outputs/quickstart", help="folder of a trained post-norm model")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES, help="the first is the base")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--no_memory", action="store_true", help="leave out the peaks of memory")
    parser.add_argument("--peak_of", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak_of:
        translate_once(options.peak_of, Path(options.folder), options)
        return
    if options.source:
        lines = Path(options.source).read_text(encoding="utf-8").split("\n")[:-1]
    else:
        from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs

        lines = [source for source, _ in iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en"))]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    print(f"hf_vaswani {hf_vaswani.__version__}, torch {torch.__version__}")
    trained, tokenizer = load(options.model)
    # The settings of all engines.
    trained.generation_config.update(length_penalty=1.0, early_stopping=False, max_length=LIMIT)
    trained.generation_config.length_penalty_type = "length"
    trained.generation_config.max_length_offset = None
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder), grow(trained, size), tokenizer)
            compare(size, Path(folder), lines[: options.sentences], options)


if __name__ == "__main__":
    main()
