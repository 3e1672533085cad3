"""Export to transformers.js: its graphs in ONNX Runtime, its tokenizers in `tokenizers`, and both in Node."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from hf_vaswani.cli import main
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.data.tokenizers.tokenizer import load_tokenizer
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.engines.onnx.onnx_model import OnnxModel
from hf_vaswani.engines.transformers_js_export import tokenizer_rules
from hf_vaswani.errors import InputError

from ..conftest import tiny_model
from ..core.test_modeling_vaswani import randomize
from ..data.tokenizers.test_tokenizer import STRANGE, TEXTS, learn
from ..invisible import CHANGES
from .variants import MASK, SOURCES, VARIANTS, up_to_end

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SAMPLE = ("w1 w2 w3 w4", "w5")
# Kinds of tokenizers that split texts by different rules.
TOKENIZERS = {
    "bpe": {},
    "bpe with bytes": {"byte_fallback": True, "vocab_size": 500},
    "bpe lowercase": {"lowercase": True, "normalization": "nfkc"},
    "bpe markers after words": {"pre_tokenizer": "whitespace", "word_boundary": "after"},
    "bpe of pre-tokenized text": {"pre_tokenizer": "whitespace"},
    "wordpiece": {"type": "wordpiece"},
    "wordpiece markers after words": {"type": "wordpiece", "pre_tokenizer": "whitespace", "word_boundary": "after"},
    "bpe without invisible characters": {"whitespace": "normalize"},
    "markers after words, without them": {
        "pre_tokenizer": "whitespace", "word_boundary": "after", "whitespace": "normalize",
    },
    "word": {"type": "word"},
    "word by rules": {"type": "word", "pre_tokenizer": "rules"},
}  # fmt: skip
LENGTH = 12
NODE_MODULES = os.environ.get("HF_VASWANI_NODE_MODULES", "")
needs_node = pytest.mark.skipif(
    not (shutil.which("node") and Path(NODE_MODULES, "@huggingface", "transformers").is_dir()),
    reason="needs node, and HF_VASWANI_NODE_MODULES: a folder node_modules with @huggingface/transformers",
)


def test_folder_has_the_files_and_names_that_transformers_js_reads(saved_model, write_lines, tmp_path):
    sample = write_lines("sample", SAMPLE)
    for type, suffix, dtype in (("float32", "", "fp32"), ("int8", "_quantized", "q8")):
        folder = tmp_path / type
        command = ["export", str(saved_model), str(folder), "--to", "transformers.js", "--sample", sample]
        assert main([*command, "--quantization", type]) == 0
        assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
            "README.md", "config.json", "generation_config.json",
            f"onnx/decoder_model_merged{suffix}.onnx", f"onnx/encoder_model{suffix}.onnx",
            "tokenizer.json", "tokenizer_config.json",
        ]  # fmt: skip
        config = json.loads((folder / "config.json").read_text())
        assert config["model_type"] == "marian"
        assert config["transformers.js_config"] == {"dtype": dtype}
    settings = json.loads((folder / "generation_config.json").read_text())
    assert settings == {
        "bos_token_id": 1, "decoder_start_token_id": 1, "eos_token_id": 2, "max_new_tokens": 256, "pad_token_id": 0,
    }  # fmt: skip


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_greedy_search_gives_the_models_own_tokens(changes, tokenizer, tmp_path):
    model = tiny_model(**changes)
    randomize(model)
    export_model(model, tokenizer, tmp_path / "js", texts=SAMPLE, to="transformers.js")
    engine = OnnxModel(model.config, tmp_path / "js")
    inputs = {"input_ids": SOURCES, "attention_mask": MASK, "num_beams": 1, "max_new_tokens": 8}
    assert up_to_end(engine.generate(**inputs)) == up_to_end(model.generate(**inputs))


def test_finished_row_generates_only_end_tokens(tokenizer, tmp_path):
    # transformers.js continues until the last token of every row is an end token.
    model = tiny_model(decoder_start_token_id=2)
    export_model(model, tokenizer, tmp_path / "js", texts=SAMPLE, to="transformers.js")
    graphs = OnnxModel(model.config, tmp_path / "js").graphs
    states = graphs.encode(SOURCES, MASK)
    start = torch.tensor([[2], [2], [2]])
    logits, past, source = graphs.decode(start, states, MASK)
    with torch.no_grad():
        expected = model(input_ids=SOURCES, attention_mask=MASK, decoder_input_ids=start).logits
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    logits, *_ = graphs.decode(torch.tensor([[2], [7], [2]]), states, MASK, past, source)
    assert (logits[:, 0].softmax(-1)[:, 2] == 1).tolist() == [True, False, True]


@pytest.mark.parametrize("arguments", TOKENIZERS.values(), ids=TOKENIZERS)
def test_rewritten_tokenizers_give_the_same_ids_and_texts(arguments):
    tokenizer = learn(**arguments)
    rewritten = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(tokenizer_rules(tokenizer))), **SPECIAL_TOKENS
    )
    # Like any tokenizer of transformers, it recognizes special tokens in a text. An empty text ends no word.
    texts = [text for text in [*TEXTS, *STRANGE] if text and "</s>" not in text]
    ids = tokenizer(texts)["input_ids"]
    assert rewritten(texts)["input_ids"] == ids
    assert rewritten.batch_decode(ids, skip_special_tokens=True) == tokenizer.batch_decode(
        ids, skip_special_tokens=True
    )


def test_rules_that_transformers_js_joins_are_regular_expressions():
    for arguments in ({"type": "wordpiece"}, {"pre_tokenizer": "whitespace", "word_boundary": "after"}):
        rules = tokenizer_rules(learn(**arguments))["pre_tokenizer"]["pretokenizers"]
        splits = [rule for rule in rules if rule["type"] == "Split"]
        assert {rule["behavior"] for rule in splits} == {"Isolated"}
        assert [rule["type"] for rule in rules if rule not in splits and rule.get("split")] == []


def test_everything_transformers_js_cannot_express_is_reported_together(separate, tmp_path):
    model = tiny_model(activation_function="laplace", share_encoder_decoder_embeddings=False, decoder_vocab_size=30)
    with pytest.raises(InputError) as error:
        export_model(model, load_tokenizer(str(separate)), tmp_path / "js", to="transformers.js")
    for expected in ("laplace", "separate vocabularies"):
        assert expected in str(error.value)
    with pytest.raises(InputError, match="the tokenizer's model Unigram, in which it merges consecutive unknown"):
        tokenizer = learn(type="unigram", min_frequency=None)
        export_model(tiny_model(vocab_size=len(tokenizer)), tokenizer, tmp_path / "js", to="transformers.js")
    assert not (tmp_path / "js").exists()


def test_folder_is_not_mistaken_for_one_of_this_package(saved_model, write_lines, tmp_path, capsys):
    command = ["export", str(saved_model), str(tmp_path / "js"), "--to", "transformers.js"]
    assert main([*command, "--sample", write_lines("sample", SAMPLE)]) == 0
    assert main(["translate", str(tmp_path / "js"), "--input", write_lines("source", ["w1"])]) == 2
    assert "was exported for transformers.js" in capsys.readouterr().err


def in_node(folder: Path, texts: list[str], batch_size: int) -> list[dict]:
    """What transformers.js returns for texts: source and target ids, and translations."""
    file = folder.parent / "texts.json"
    file.write_text(json.dumps(texts))
    script = Path(__file__).with_name("translate.mjs")
    command = ["node", script, Path(NODE_MODULES).resolve(), folder, file, str(batch_size), str(LENGTH)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-2000:]
    return [json.loads(line) for line in process.stdout.splitlines()]


def test_heads_of_a_different_width_are_rejected(tokenizer, tmp_path):
    with pytest.raises(InputError, match="d_k=3 and d_v=5"):
        export_model(tiny_model(d_k=3, d_v=5), tokenizer, tmp_path / "js", to="transformers.js")
    assert not (tmp_path / "js").exists()


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("arguments", TOKENIZERS.values(), ids=TOKENIZERS)
def test_node_gives_the_same_ids_after_changes_that_nobody_sees(arguments, tmp_path):
    tokenizer = learn(**{**arguments, "whitespace": "normalize"})
    learned_before = learn(**arguments)
    del learned_before.init_kwargs["whitespace"]
    texts = [change(text) for text in TEXTS for change in (str, *CHANGES.values())]
    for number, tried in enumerate((tokenizer, learned_before)):
        model, folder = tiny_model(vocab_size=len(tried)), tmp_path / f"{number}"
        export_model(model, tried, folder, texts=TEXTS[:3], to="transformers.js")
        ids = [ids for result in in_node(folder, texts, len(texts)) for ids in result["source"]]
        size = 1 + len(CHANGES)
        assert ids == [row for text in TEXTS for row in tried([text] * size)["input_ids"]]


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("arguments", TOKENIZERS.values(), ids=TOKENIZERS)
def test_node_gives_the_models_own_ids_tokens_and_texts(arguments, tmp_path):
    tokenizer = learn(**arguments)
    model = tiny_model(vocab_size=len(tokenizer))
    randomize(model)
    texts = [*TEXTS, *STRANGE, *(f"{text} {strange}" for text, strange in zip(TEXTS, STRANGE))]
    for type in ("float32", "int8"):
        folder = tmp_path / type
        export_model(model, tokenizer, folder, type, texts=TEXTS[:3], to="transformers.js")
        expected = model if type == "float32" else OnnxModel(model.config, folder)
        for batch_size in (1, 5):
            results = in_node(folder, texts, batch_size)
            assert [ids for result in results for ids in result["source"]] == tokenizer(texts)["input_ids"]
            got_ids = [up_to_end(torch.tensor([ids]))[0] for result in results for ids in result["target"]]
            got_texts = [text for result in results for text in result["texts"]]
            for text, ids, translation in zip(texts, got_ids, got_texts, strict=True):
                inputs = tokenizer(text, return_tensors="pt")
                output = expected.generate(**inputs, num_beams=1, max_new_tokens=LENGTH)
                assert ids == up_to_end(output)[0]
                decoded = tokenizer.decode(output[0], skip_special_tokens=True)
                # Bytes that are not valid UTF-8 look different in JavaScript.
                assert translation == decoded or "\ufffd" in decoded
