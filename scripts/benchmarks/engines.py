"""Speed, memory, size and scores of one model in all engines: PyTorch, CTranslate2, ONNX Runtime; as is and in 8 bits.

    python scripts/benchmarks/engines.py --model outputs/my_model --source test.de --reference test.en

The model is exported with `hf-vaswani export`, with `--shortlist train.de train.en` also with a shortlist learned from
these files. Every engine translates through the pipeline, with the model's own settings; more rows show what one would
use without this package: `ctranslate2.Translator` called directly, with the patience of the pipeline's search, and
transformers' own search over the ONNX graphs. Contestants run in turn, each in its own process; memory is for the
process and its workers together. Speeds need an idle machine.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from measuring import compare, in_own_process, machine
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    GenerationMixin,
    QuantoConfig,
    TorchAoConfig,
    pipeline,
)

from hf_vaswani.cli import main as command
from hf_vaswani.engines.ctranslate2_model import PATIENCE
from hf_vaswani.evaluation.score import bleu, chrf

EXPORTS = {
    "CTranslate2": ("ctranslate2", ()),
    "CTranslate2 shortlist": ("ctranslate2", ()),
    "CTranslate2 int8": ("ctranslate2", ("--quantization", "int8")),
    "CTranslate2 int8 shortlist": ("ctranslate2", ("--quantization", "int8")),
    "ONNX": ("onnx", ()),
    "ONNX int8": ("onnx", ("--quantization", "int8")),
}
DIRECT = {"CTranslate2 directly": "CTranslate2", "CTranslate2 int8 directly": "CTranslate2 int8",
          "ONNX, transformers' search": "ONNX", "ONNX int8, transformers' search": "ONNX int8"}  # fmt: skip
QUANTIZED = ("torchao int8 weights", "torchao int8 dynamic", "quanto int8 weights")
KINDS = ("pipeline", "pipeline int8", *EXPORTS, *DIRECT, *QUANTIZED)
# Sentences in a batch of transformers' own search, in file order.
BATCH = 32


def quantization_of(kind: str) -> object:
    """The `quantization_config` of one contestant."""
    if kind.startswith("quanto"):
        return QuantoConfig(weights="int8")
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig

    kinds = {"weights": Int8WeightOnlyConfig, "dynamic": Int8DynamicActivationInt8WeightConfig}
    return TorchAoConfig(kinds[kind.split()[-1]]())


def folder_of(kind: str, home: Path, model: str) -> Path:
    """The folder that one contestant reads the model from."""
    name = DIRECT.get(kind, kind)
    return home / name.replace(" ", "_") if name in EXPORTS else Path(model)


def plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor, or the plain tensors that a quantized one consists of."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from plain_tensors(getattr(tensor, name))


def model_bytes(model: torch.nn.Module) -> int:
    """Bytes of a model's weights, with tied ones counted once."""
    parts = {part.data_ptr(): part.nbytes for tensor in model.parameters() for part in plain_tensors(tensor)}
    return sum(parts.values())


def make_engine(kind: str, folder: Path, beams: int) -> tuple[Callable[[list[str]], list[str]], float]:
    """A function that translates a list of texts, and the bytes that its weights take; 0 if that is not known."""
    if kind.startswith("CTranslate2") and kind.endswith("directly"):
        return ctranslate2_directly(folder, beams), folder_size(folder)
    if kind.endswith("search"):
        return transformers_search(folder, beams), folder_size(folder)
    options: dict[str, object] = {} if kind in EXPORTS else {"engine": "torch"}
    if kind == "pipeline int8":
        options = {"quantize": "int8"}
    elif kind in QUANTIZED:
        options["model_kwargs"] = {"quantization_config": quantization_of(kind)}
    translator = pipeline("translation", model=str(folder), num_beams=beams, **options)
    # CTranslate2's weights of 8 bits are in the cache.
    size = folder_size(folder) if kind in EXPORTS else 0 if kind == "pipeline int8" else model_bytes(translator.model)
    return (lambda texts: [entry["translation_text"] for entry in translator(texts)]), size


def folder_size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def ctranslate2_directly(folder: Path, beams: int) -> Callable[[list[str]], list[str]]:
    """CTranslate2 as in its documentation, with a single-threaded worker per core, its fastest setting on a CPU."""
    import ctranslate2

    tokenizer = AutoTokenizer.from_pretrained(folder)
    patience = PATIENCE[GenerationConfig.from_pretrained(folder).early_stopping or False]
    translator = ctranslate2.Translator(str(folder), inter_threads=torch.get_num_threads(), intra_threads=1)

    def translate(texts: list[str]) -> list[str]:
        tokens = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(texts).input_ids]
        results = translator.translate_batch(
            tokens, beam_size=beams, patience=patience, max_batch_size=2048, batch_type="tokens"
        )
        ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return translate


def transformers_search(folder: Path, beams: int) -> Callable[[list[str]], list[str]]:
    """The original `generate()` of transformers, batch after batch, with ONNX Runtime computing the forward pass."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)

    def translate(texts: list[str]) -> list[str]:
        translations = []
        for start in range(0, len(texts), BATCH):
            inputs = tokenizer(texts[start : start + BATCH], return_tensors="pt", padding=True)
            inputs = {"input_ids": inputs.input_ids, "attention_mask": inputs.attention_mask}
            output = GenerationMixin.generate(model, **inputs, num_beams=beams)
            translations += tokenizer.batch_decode(output, skip_special_tokens=True)
        return translations

    return translate


def measure(kind: str, home: Path, options: argparse.Namespace) -> None:
    """Translate in this process, and print what was measured."""
    texts, references = (Path(path).read_text(encoding="utf-8").split("\n")[:-1] for path in
                         (options.source, options.reference))  # fmt: skip
    translate, size = make_engine(kind, folder_of(kind, home, options.model), options.num_beams)
    translate(texts[:64])
    start = time.perf_counter()
    found = translate(texts)
    speed = len(texts) / (time.perf_counter() - start)
    (home / f"{kind.replace(' ', '_')}.txt").write_text("".join(f"{text}\n" for text in found), encoding="utf-8")
    base = (home / "pipeline.txt").read_text(encoding="utf-8").split("\n")[:-1]
    same = sum(text == other for text, other in zip(found, base, strict=True)) / len(texts)
    notes = f"BLEU {bleu(found, references).value:.2f}, chrF2 {chrf(found, references).value:.2f}, {same:.1%} the same"
    print(json.dumps({"speed": speed, "notes": (f"{size / 1e6:.1f} MB, " if size else "") + notes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder or Hub id")
    parser.add_argument("--source", required=True, help="text to translate, a sentence a line")
    parser.add_argument("--reference", required=True, help="its translations")
    parser.add_argument("--shortlist", nargs=2, help="sentence pairs to learn a shortlist from")
    parser.add_argument("--num_beams", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what to compare")
    parser.add_argument("--kind", choices=KINDS, help="measure this one here")
    parser.add_argument("--home", type=Path, help="where the exported models are")
    options = parser.parse_args()
    if options.kind:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        measure(options.kind, options.home, options)
        return
    # The others are compared with the translations of the pipeline.
    kinds = ["pipeline", *(kind for kind in options.kinds if kind != "pipeline")]
    if not options.shortlist:
        kinds = [kind for kind in kinds if not kind.endswith("shortlist")]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for kind in {DIRECT.get(kind, kind): None for kind in kinds}:
            if kind in EXPORTS:
                target, extra = EXPORTS[kind]
                extra = (*extra, "--shortlist", *options.shortlist) if kind.endswith("shortlist") else extra
                exported = str(folder_of(kind, home, options.model))
                if command(["export", options.model, exported, "--to", target, *extra]):
                    raise SystemExit(f"{kind}: hf-vaswani export failed")
        files = ("--model", options.model, "--source", options.source, "--reference", options.reference)
        arguments = (*files, "--num_beams", options.num_beams, "--home", home)
        table = compare(
            f"One model in all engines: {options.model}, beam {options.num_beams}", "sentences", kinds, options.rounds,
            lambda kind: in_own_process(__file__, *arguments, "--kind", kind),
        )  # fmt: skip
    print(table.markdown())
    print(machine(), file=sys.stderr)


if __name__ == "__main__":
    main()
