"""Size, scores and speed of a model that transformers quantizes as it loads it, beside its weights in fp32.

    python scripts/benchmarks/quantized.py --model outputs/my_model --source test.de --reference test.en

Contestants run in turn, each in a process of its own. Sizes and scores are the same in each round; speeds need a quiet
machine.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from measuring import compare, in_own_process, machine, peak_memory
from transformers import QuantoConfig, TorchAoConfig, pipeline

from hf_vaswani.evaluation.score import bleu, chrf

KINDS = ("fp32", "torchao int8 weights", "torchao int8 dynamic", "quanto int8 weights", 'quantize="int8"')


def options_of(kind: str) -> dict[str, object]:
    """What the pipeline is given for one contestant."""
    if kind == "fp32":
        return {}
    if kind.startswith("quantize"):
        return {"quantize": "int8"}
    if kind.startswith("quanto"):
        config = QuantoConfig(weights="int8")
    else:
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig

        config = TorchAoConfig(
            Int8DynamicActivationInt8WeightConfig() if kind.endswith("dynamic") else Int8WeightOnlyConfig()
        )
    return {"model_kwargs": {"quantization_config": config}}


def plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor, or those that a quantized one is made of."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from plain_tensors(getattr(tensor, name))


def model_bytes(model: torch.nn.Module) -> int:
    """Bytes of a model's weights, tied ones once."""
    parts = {part.data_ptr(): part.nbytes for tensor in model.parameters() for part in plain_tensors(tensor)}
    return sum(parts.values())


def measure(kind: str, options: argparse.Namespace) -> None:
    """Translate in this process, and print what was measured."""
    texts, references = (Path(path).read_text(encoding="utf-8").split("\n")[:-1] for path in
                         (options.source, options.reference))  # fmt: skip
    translator = pipeline("translation", model=options.model, **options_of(kind))
    # This package's own int8 packs its weights where they are no parameters.
    size = "" if kind.startswith("quantize") else f"{model_bytes(translator.model) / 1e6:.2f} MB, "
    translator(texts[:64])
    start = time.perf_counter()
    found = [entry["translation_text"] for entry in translator(texts)]
    speed = len(texts) / (time.perf_counter() - start)
    scores = f"BLEU {bleu(found, references).value:.2f}, chrF2 {chrf(found, references).value:.2f}"
    print(json.dumps({"speed": speed, "memory": peak_memory(), "notes": size + scores}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder or Hub id")
    parser.add_argument("--source", required=True, help="text to translate, a sentence a line")
    parser.add_argument("--reference", required=True, help="its translations")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=KINDS, help="measure this one here")
    options = parser.parse_args()
    if options.kind:
        measure(options.kind, options)
        return
    files = ("--model", options.model, "--source", options.source, "--reference", options.reference)
    table = compare(
        f"Quantized on load: {options.model}", "sentences", KINDS, options.rounds,
        lambda kind: in_own_process(__file__, *files, "--kind", kind),
    )  # fmt: skip
    print(table.markdown())
    print(machine(), file=sys.stderr)


if __name__ == "__main__":
    main()
