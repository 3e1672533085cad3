"""Speed and memory of translation, beside transformers' MarianMTModel and CTranslate2 with the same weights.

    python scripts/benchmarks/translation.py --source test_2016_flickr.de [--model FOLDER] [--beams 4] [--threads 2]

Without `--model` the weights are random, in the sizes 4+4/128 and 6+6/512 with 8 000 tokens; the row of the end token
is fitted so that translations are about as long as their sources, and the sources are random words, as many a line as
the lines of `--source` have (of the embedded corpus without it). All engines search with the same beam under
transformers' own settings, so that MarianMT's translations and this package's are the same, which is checked.
MarianMT takes batches of 32 in file order, as `generate()` is commonly used. Each repetition times all engines in
turn; the table gives the median of the ratios to MarianMT of the same repetition. Memory is the peak of a process that
translates with one engine and does nothing else.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel, PreTrainedTokenizerFast

import hf_vaswani
from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from hf_vaswani.cli import main as command
from hf_vaswani.interop import export_marian

VOCAB_SIZE = 8000
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
SIZES = {"4+4/128": (4, 128, 4, 512), "6+6/512": (6, 512, 8, 2048)}
ENGINES = ("marian", "pipeline", "command", "pipeline bf16", "ctranslate2")
LIMIT = 200


def random_model(size: str, lengths: list[int]) -> VaswaniForConditionalGeneration:
    """A model of random weights whose translations end at about the length of their source."""
    layers, d_model, heads, ffn_dim = SIZES[size]
    torch.manual_seed(0)
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder")
             for name, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", ffn_dim))}  # fmt: skip
    config = VaswaniConfig(
        vocab_size=VOCAB_SIZE,
        d_model=d_model,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=False,
        output_bias=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **sizes,
    )
    model = VaswaniForConditionalGeneration(config).eval()
    fit_ends(model, lengths)
    model.generation_config.update(num_beams=4, max_length=LIMIT)
    return model


@torch.inference_mode()
def fit_ends(model: VaswaniForConditionalGeneration, lengths: list[int]) -> None:
    """Make the end token's logit grow with what is written beyond the length of the source.

    The decoder's states hold both in some form; least squares finds it, on targets of the model's own.
    """
    states, excess = [], []
    head = model.lm_head
    head.bias.zero_()
    head.bias[:3] = -1e4  # no padding, no second start, and for now no end
    for length in random.Random(0).choices(lengths, k=80):
        source = torch.cat([torch.randint(4, VOCAB_SIZE, (1, length)), torch.tensor([[2]])], dim=1)
        target = model.generate(source, num_beams=2, max_new_tokens=2 * length, eos_token_id=None)
        states.append(model.model(input_ids=source, decoder_input_ids=target).last_hidden_state[0])
        excess.append(torch.arange(target.shape[1]) - length)
    states = torch.cat(states).double()
    states = torch.cat([states, torch.ones(len(states), 1, dtype=torch.float64)], dim=1)
    excess = torch.cat(excess).double().clamp(-6, 6)
    ridge = torch.eye(states.shape[1], dtype=torch.float64) * len(states) * 1e-4
    solution = torch.linalg.solve(states.T @ states + ridge, states.T @ excess)
    head.weight[2], head.bias[2] = 3 * solution[:-1], 3 * solution[-1] + 6


def word_tokenizer() -> PreTrainedTokenizerFast:
    """A vocabulary of words w4, w5, …"""
    words = {token: i for i, token in enumerate([*SPECIAL, *(f"w{i}" for i in range(4, VOCAB_SIZE))])}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def prepare(folder: Path, model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """The same weights for all engines."""
    model.save_pretrained(folder / "vaswani")
    tokenizer.save_pretrained(folder / "vaswani")
    marian = export_marian(model)
    marian.generation_config.update(max_length=LIMIT, max_new_tokens=None)
    marian.save_pretrained(folder / "marian")
    try:
        from ctranslate2.converters.transformers import BartLoader
    except ImportError:
        print("ctranslate2 is not installed: its row is left out (pip install ctranslate2)", file=sys.stderr)
        return
    marian.config.normalize_before = marian.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(marian)
    tokens = tokenizer.convert_ids_to_tokens(range(model.config.vocab_size))
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

        @torch.inference_mode()
        def translate(texts):
            translations = []
            for start in range(0, len(texts), 32):
                inputs = tokenizer(texts[start : start + 32], return_tensors="pt", padding=True)
                output = model.generate(inputs.input_ids, attention_mask=inputs.attention_mask, **search)
                translations += tokenizer.batch_decode(output, skip_special_tokens=True)
            return translations

    elif name == "ctranslate2":
        import ctranslate2

        translator = ctranslate2.Translator(str(folder / "ctranslate2"), intra_threads=threads, compute_type="float32")

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
        translator = pipeline("translation", model=model, tokenizer=tokenizer)

        def translate(texts):
            return [result["translation_text"] for result in translator(texts, **search, length_penalty_type="length")]

    return translate


def peak_memory(name: str, folder: Path, options: argparse.Namespace) -> float:
    """MiB that a process with one engine needs at most."""
    arguments = ["--peak_of", name, "--folder", str(folder), "--beams", str(options.beams)]
    arguments += ["--threads", str(options.threads)]
    output = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output.splitlines()[-1])


def translate_once(name: str, folder: Path, options: argparse.Namespace) -> None:
    texts = (folder / "texts.txt").read_text(encoding="utf-8").split("\n")[:-1]
    make_engine(name, folder, options.beams, options.threads)(texts)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def compare(title: str, folder: Path, texts: list[str], options: argparse.Namespace) -> None:
    """Time all engines in turn and print the table of one model."""
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    names = [name for name in options.engines if name != "ctranslate2" or (folder / "ctranslate2").exists()]
    engines = {name: make_engine(name, folder, options.beams, options.threads) for name in names}
    outputs, times = {}, {name: [] for name in names}
    for name in names:
        engines[name](texts[:64])
    for _ in range(options.repetitions):
        for name in names:
            start = time.perf_counter()
            outputs[name] = engines[name](texts)
            times[name].append(time.perf_counter() - start)
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
    parser.add_argument("--model", help="folder of a trained model; default: random weights in two sizes")
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
        from hf_vaswani.data.corpus import generate_corpus

        lines = [source for source, _ in generate_corpus()["train"]]
    lines = lines[: options.sentences]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    print(f"hf_vaswani {hf_vaswani.__version__}, torch {torch.__version__}")
    for size in [options.model] if options.model else options.sizes:
        with tempfile.TemporaryDirectory() as name:
            folder, texts = Path(name), lines
            if options.model:
                model = AutoModelForSeq2SeqLM.from_pretrained(options.model).eval()
                # The settings of all engines, which the command takes from here.
                model.generation_config.update(length_penalty=1.0, early_stopping=False, max_length=LIMIT)
                model.generation_config.length_penalty_type = "length"
                model.generation_config.max_length_offset = None
                prepare(folder, model, AutoTokenizer.from_pretrained(options.model))
            else:
                lengths = [len(line.split()) for line in lines]
                prepare(folder, random_model(size, lengths), word_tokenizer())
                choose = random.Random(1)
                texts = [" ".join(f"w{choose.randrange(4, VOCAB_SIZE)}" for _ in range(n)) for n in lengths]
            compare(size, folder, texts, options)


if __name__ == "__main__":
    main()
