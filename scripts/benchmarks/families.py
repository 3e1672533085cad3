"""Speed of every family of translation models in transformers: its own `generate()` against this package's pipeline.

    python scripts/benchmarks/families.py --output families.json

Models are random, with 6+6 layers of width 512. So that their translations have real lengths, the row of the LM head
for the end of the sentence is fitted to hidden states: it wins at about the source's length. (T5's states do not tell
positions; its translations all have the largest length, which suits batches best.) `generate()` gets the batch size
that is fastest for it, in the order of the text, as the pipeline of transformers 4 batched, and sorted by length.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import torch
from measuring import Table, compare, in_own_process, machine, write
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    pipeline,
)

import hf_vaswani  # noqa: F401 - registers the pipeline

FAMILIES = ("marian", "m2m_100", "mbart", "bart", "t5")
CONTESTANTS = ("generate", "generate sorted", "pipeline")
SIZE = {"d_model": 512, "ffn_dim": 2048, "layers": 6, "heads": 8, "vocab_size": 8000}
BATCHES = (8, 16, 32, 64)
# Tokens of a text, as in news; samples to fit the end of the sentence to; how fast its logit grows past that.
SHORTEST, LONGEST, LIMIT = 5, 60, 80
SAMPLES, SLOPE = 200, 3.0
SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def make_model(family: str) -> PreTrainedModel:
    """A random model in eval mode whose translations are about as long as their sources."""
    torch.manual_seed(0)
    names = {"vocab_size": SIZE["vocab_size"], "d_model": SIZE["d_model"], "tie_word_embeddings": False}
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    if family == "t5":
        names |= {"d_kv": SIZE["d_model"] // SIZE["heads"], "d_ff": SIZE["ffn_dim"], "num_layers": SIZE["layers"]}
        names |= {"num_heads": SIZE["heads"]}
    else:
        sizes = {"layers": SIZE["layers"], "attention_heads": SIZE["heads"], "ffn_dim": SIZE["ffn_dim"]}
        names |= {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}
        names |= {"max_position_embeddings": 256, "init_std": 0.05, "forced_eos_token_id": None}
    # As in the checkpoints: padding, or the end of the sentence.
    start = 1 if family in ("marian", "t5") else 2
    config = AutoConfig.for_model(family, decoder_start_token_id=start, **ids, **names)
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    if family != "t5":
        fit_end(model)
    model.generation_config.update(num_beams=4, early_stopping=True, max_length=LIMIT)
    return model


@torch.no_grad()
def fit_end(model: PreTrainedModel) -> None:
    """Fit the LM head's row for the end of the sentence: its logit wins once the target is as long as the source."""
    states, beyond = [], []
    for length in torch.randint(SHORTEST, LONGEST, (SAMPLES,)).tolist():
        source, target = (torch.randint(4, SIZE["vocab_size"], (1, count)) for count in (length, LIMIT))
        states.append(model.model(input_ids=source, decoder_input_ids=target).last_hidden_state[0])
        beyond.append(torch.arange(LIMIT) - length)
    inputs, head = torch.cat(states).double(), model.get_output_embeddings()
    best = (inputs @ head.weight.double().T).max(-1).values.mean()
    wanted = best + torch.cat(beyond).double().clamp(-10, 10) * SLOPE
    row = torch.linalg.solve(inputs.T @ inputs + torch.eye(inputs.shape[1]), inputs.T @ wanted)
    head.weight[model.config.eos_token_id] = row.float()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer that maps each word to a token: `t4`, `t5`, and so on."""
    words = [*SPECIAL.values(), *(f"t{number}" for number in range(4, SIZE["vocab_size"]))]
    rules = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    rules.pre_tokenizer = WhitespaceSplit()
    rules.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=rules, model_input_names=["input_ids", "attention_mask"], **SPECIAL
    )


def make_texts(count: int) -> list[str]:
    generator = random.Random(0)
    return [
        " ".join(f"t{generator.randrange(4, SIZE['vocab_size'])}" for _ in range(generator.randint(SHORTEST, LONGEST)))
        for _ in range(count)
    ]


@torch.inference_mode()
def translate_in_batches(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, texts: list[str], size: int
) -> list[str]:
    """Translate as one would without this package."""
    translations = []
    for start in range(0, len(texts), size):
        inputs = tokenizer(texts[start : start + size], return_tensors="pt", padding=True)
        translations += tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)
    return translations


def measure(contestant: str, folder: Path, sizes: list[int]) -> None:
    """Translate in this process, and print what was measured."""
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    texts = (folder / "texts.txt").read_text(encoding="utf-8").splitlines()
    if contestant == "pipeline":
        translator = pipeline("translation", model=model, tokenizer=tokenizer, engine="ctranslate2")
        translator(texts)  # converts the model
        start = time.perf_counter()
        found = [result["translation_text"] for result in translator(texts)]
        seconds, notes = time.perf_counter() - start, ""
    else:
        if contestant == "generate sorted":
            texts.sort(key=lambda text: len(text.split()))
        seconds, size = 0.0, 0
        for candidate in sizes:
            start = time.perf_counter()
            result = translate_in_batches(model, tokenizer, texts, candidate)
            took = time.perf_counter() - start
            if not size or took < seconds:
                seconds, size, found = took, candidate, result
        notes = f"batches of {size}, "
    tokens = sum(len(text.split()) for text in found)
    notes += f"{tokens / len(found):.1f} tokens a sentence"
    print(json.dumps({"speed": len(texts) / seconds, "notes": notes}))


def tables(home: Path, options: argparse.Namespace) -> list[Table]:
    """One table for each family."""
    os.environ["HF_VASWANI_CACHE"] = str(home / "cache")
    made = []
    for family in options.families:
        folder = home / family
        make_model(family).save_pretrained(folder)
        make_tokenizer().save_pretrained(folder)
        texts = make_texts(options.sentences)
        (folder / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        made.append(
            compare(
                f"{family}, 6+6/512, random: {len(texts)} sentences, beam 4", "sentences", CONTESTANTS, options.rounds,
                lambda name, folder=folder: in_own_process(
                    __file__, "--contestant", name, "--folder", folder, "--batches", *options.batches
                ),
            )
        )  # fmt: skip
        print(f"\n{made[-1].markdown()}", flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES), help="sizes that generate() tries")
    parser.add_argument("--output", type=Path, help="JSON file of all results")
    parser.add_argument("--contestant", choices=CONTESTANTS, help="measure this one here")
    parser.add_argument("--folder", type=Path, help="where its model and its texts are")
    options = parser.parse_args()
    if options.contestant:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        measure(options.contestant, options.folder, options.batches)
        return
    with tempfile.TemporaryDirectory() as home:
        made = tables(Path(home), options)
    if options.output:
        write(made, options.output)
    print(machine(), file=sys.stderr)


if __name__ == "__main__":
    main()
