"""Speed and memory of translation, compared with transformers' MarianMTModel and CTranslate2 on the same weights.

The trained model is grown to the sizes 4+4/128 and 6+6/512 with 8,000 tokens without changing its function: all sizes
give the same translations, with realistic lengths. All engines use the same beam size, length penalty and end of the
search (`early_stopping=True`, a patience of 1), so that they give the same translations, as the table shows. The
pipeline chooses its engine itself, with the model converted already; "torch" is its search in PyTorch. MarianMT gets
batches of 32 in file order, the common use of `generate()`; CTranslate2 gets a single-threaded worker per core, which
is faster than one worker with all cores. Memory is the peak of the process, without its workers (Linux only).

Run it with `run.py`, which interleaves the engines; on its own, it measures one of them.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from grown_models import as_marian, grow, set_positions
from measuring import Table, compare, in_own_process, peak_memory
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel, PreTrainedTokenizerFast

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.cli import main as command
from hf_vaswani.models.load import load

ENGINES = (
    "marian", "pipeline", "pipeline torch", "pipeline torch bf16", "pipeline int8", "command", "ctranslate2",
    "ctranslate2 int8",
)  # fmt: skip
LIMIT = 200


def tables(folder: Path, options: argparse.Namespace) -> list[Table]:
    """One table for each size."""
    trained, tokenizer = load(options.model)
    # All engines use these settings.
    trained.generation_config.update(
        num_beams=options.num_beams, length_penalty=1.0, early_stopping=True, max_length=LIMIT
    )
    trained.generation_config.length_penalty_type = "length"
    trained.generation_config.max_length_offset = None
    texts = Path(options.test).read_text(encoding="utf-8").split("\n")[:-1][: options.sentences]
    made = []
    for size in options.sizes:
        home = folder / size.replace("/", "_")
        home.mkdir()
        prepare(home, grow(trained, size), tokenizer)
        (home / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        names = [
            name
            for name in options.engines or ENGINES
            if not name.startswith("ctranslate2") or (home / "ctranslate2").exists()
        ]
        made.append(
            compare(
                f"Translation, {size}: {len(texts)} sentences, beam {options.num_beams}", "sentences", names,
                options.rounds, lambda name, home=home: measure(name, home, options),
            )
        )  # fmt: skip
    return made


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Measure one engine in its own process: speed, memory, and how many translations are the same as MarianMT's."""
    os.environ["HF_VASWANI_CACHE"] = str(folder / "cache")
    result = in_own_process(__file__, name, "--folder", folder, "--num_beams", options.num_beams)
    translations = folder / f"{name.replace(' ', '_')}.txt"
    marian = folder / "marian.txt"
    if name != "marian" and marian.exists():
        pairs = list(zip(*(path.read_text(encoding="utf-8").split("\n")[:-1] for path in (translations, marian))))
        result["notes"] = f"{sum(a == b for a, b in pairs) / len(pairs):.1%} as MarianMT"
    return result


def prepare(folder: Path, model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write the same weights for all engines."""
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
    search = {"num_beams": beams, "length_penalty": 1.0, "early_stopping": True}
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
        options = {"engine": "torch"} if "torch" in name else {"quantize": "int8"} if name.endswith("int8") else {}
        translator = pipeline("translation", model=model, tokenizer=tokenizer, **options)

        def translate(texts):
            return [result["translation_text"] for result in translator(texts, **search, length_penalty_type="length")]

    return translate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--num_beams", type=int, required=True)
    options = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    texts = (options.folder / "texts.txt").read_text(encoding="utf-8").split("\n")[:-1]
    engine = make_engine(options.engine, options.folder, options.num_beams, torch.get_num_threads())
    # Enough for the pipeline to open the engine, and to convert the model in the first round.
    engine(texts[:64] if "torch" in options.engine or options.engine == "marian" else texts)
    start = time.perf_counter()
    translations = engine(texts)
    seconds = time.perf_counter() - start
    lines = "".join(" ".join(text.split()) + "\n" for text in translations)
    (options.folder / f"{options.engine.replace(' ', '_')}.txt").write_text(lines, encoding="utf-8")
    print(json.dumps({"speed": len(texts) / seconds, "memory": peak_memory()}))


if __name__ == "__main__":
    main()
