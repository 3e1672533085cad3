"""Speed of fine-tuning a small M2M100 by default, compared with Seq2SeqTrainer.

The model is random, of 3+3 layers and width 256, with a tokenizer of the text itself. All contestants train it in
fp32, in batches of the same mean number of target tokens. Only real target tokens count, without padding.

Run it with `run.py`, which interleaves the contestants; on its own, it measures one of them.
"""

import argparse
import json
from pathlib import Path

import torch
from measuring import Table, compare, in_own_process, peak_memory
from training import run_recipe, run_trainer, write_sides

CONTESTANTS = ("Seq2SeqTrainer", "Seq2SeqTrainer, grouped by length", "hf_vaswani")
LANGUAGES = ("de", "en")
D_MODEL = 256


def tables(folder: Path, options: argparse.Namespace) -> list[Table]:
    prepare(folder, options)
    title = f"Fine-tuning M2M100, V {options.vocabulary:,}, {options.tokens:,} target tokens a step"
    return [
        compare(
            title, "target tokens", CONTESTANTS, options.rounds,
            lambda name: in_own_process(
                __file__, name, "--folder", folder, "--seconds", options.seconds, "--tokens", options.tokens
            ),
        )
    ]  # fmt: skip


def prepare(folder: Path, options: argparse.Namespace) -> None:
    """Write the text, and a model with its tokenizer."""
    import sentencepiece
    from transformers import M2M100Config, M2M100ForConditionalGeneration, M2M100Tokenizer

    write_sides(folder, options)
    sentencepiece.SentencePieceTrainer.train(
        input=[str(folder / f"train.{side}") for side in ("source", "target")], model_prefix=str(folder / "pieces"),
        vocab_size=options.vocabulary, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *(pieces.id_to_piece(i) for i in range(3, len(pieces)))]
    (folder / "vocabulary.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    files = folder / "vocabulary.json", folder / "pieces.model"
    codes = list(M2M100Tokenizer(*map(str, files)).lang_token_to_id)
    tokenizer = M2M100Tokenizer(*map(str, files), extra_special_tokens=codes)
    torch.manual_seed(1)
    sizes = {"layers": 3, "attention_heads": 4, "ffn_dim": 4 * D_MODEL, "layerdrop": 0.0}
    model = M2M100ForConditionalGeneration(
        M2M100Config(
            vocab_size=max(tokenizer.lang_code_to_id.values()) + 1, d_model=D_MODEL, max_position_embeddings=512,
            **{f"{stack}_{name}": value for stack in ("encoder", "decoder") for name, value in sizes.items()},
        )
    )  # fmt: skip
    for part in (model, tokenizer):
        part.save_pretrained(folder / "model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    options = parser.parse_args()
    if options.contestant == "hf_vaswani":
        data = dict(zip(("source_language", "target_language"), LANGUAGES))
        training = {"start_from": str(options.folder / "model"), "mixed_precision": "no"}
        speed, memory, _ = run_recipe(options, {"data": data, "training": training})
    else:
        speed, memory = train_with_trainer(options), peak_memory()
    print(json.dumps({"speed": speed, "memory": memory, "notes": ""}))


def train_with_trainer(options: argparse.Namespace) -> float:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model, tokenizer = (
        kind.from_pretrained(options.folder / "model") for kind in (AutoModelForSeq2SeqLM, AutoTokenizer)
    )
    tokenizer.src_lang, tokenizer.tgt_lang = LANGUAGES
    sides = [
        (options.folder / f"train.{side}").read_text(encoding="utf-8").split("\n")[:-1]
        for side in ("source", "target")
    ]
    columns = dict(tokenizer(sides[0], text_target=sides[1]))
    return run_trainer(options, model, tokenizer, columns, learning_rate=1e-4)


if __name__ == "__main__":
    main()
