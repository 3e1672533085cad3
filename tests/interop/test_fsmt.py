import json

import pytest
import torch
from transformers import AutoTokenizer

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.errors import InputError
from hf_vaswani.generation.alignment import to_tokens
from hf_vaswani.interop import import_checkpoint, import_model
from hf_vaswani.models.load import load
from hf_vaswani.text.vocabularies import target_vocab_size
from hf_vaswani.translator.pairs import score_pairs

from .foreign import assert_same_model, random_batch, random_fsmt


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("seed", range(6))
def test_imported_model_gives_fsmts_logits_and_translations(seed, side):
    fsmt = random_fsmt(seed)
    assert_same_model(fsmt, import_model(fsmt), random_batch(1, 2, 35, side))


def test_model_that_stores_no_position_tables_is_imported(monkeypatch):
    fsmt = random_fsmt(0)
    stored = {name: tensor for name, tensor in fsmt.state_dict().items() if "embed_positions" not in name}
    monkeypatch.setattr(fsmt, "state_dict", lambda: stored)
    assert_same_model(fsmt, import_model(fsmt), random_batch(1, 2, 35))


def test_equal_matrices_become_one():
    fsmt = random_fsmt(0, tgt_vocab_size=35)
    decoder = fsmt.model.decoder
    with torch.no_grad():
        decoder.output_projection.weight.copy_(decoder.embed_tokens.weight)
    model = import_model(fsmt)
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight
    assert not model.config.share_encoder_decoder_embeddings
    with torch.no_grad():
        fsmt.model.encoder.embed_tokens.weight.copy_(decoder.embed_tokens.weight)
    model = import_model(fsmt)
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    assert_same_model(fsmt, model, random_batch(1, 2, 35))


def test_tokenizer_with_two_vocabularies_decodes_both_sides_but_encodes_no_targets(tmp_path):
    pytest.importorskip("sacremoses")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    for side, tokens in (("src", ["Hund</w>", "und</w>", "ein</w>"]), ("tgt", ["dog</w>"])):
        (tmp_path / f"vocab-{side}.json").write_text(json.dumps({t: i for i, t in enumerate([*special, *tokens])}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "tokenizer_config.json").write_text('{"langs": ["de", "en"], "do_lower_case": false}')
    random_fsmt(0, src_vocab_size=7, tgt_vocab_size=5).save_pretrained(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "imported")
    model, tokenizer = load(str(tmp_path / "imported"))
    assert tokenizer.eos_token == "</s>" and target_vocab_size(tokenizer) == 5
    assert to_tokens(tokenizer, [4, 2]) == ["Hund</w>", "</s>"]
    assert to_tokens(tokenizer, [4, 2], is_target=True) == ["dog</w>", "</s>"]
    with pytest.raises(InputError, match="encodes targets with the source's vocabulary"):
        list(score_pairs(model, tokenizer, [("Hund", "dog")]))


def test_folder_with_its_tokenizer_is_imported(tmp_path):
    pytest.importorskip("sacremoses")
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "H", "u", "n", "d</w>", "Hund</w>", ".</w>"]
    for side in ("src", "tgt"):
        padded = [*symbols, *(f"unused{i}</w>" for i in range(35 - len(symbols)))]
        (tmp_path / f"vocab-{side}.json").write_text(json.dumps({token: i for i, token in enumerate(padded)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nH u\nn d</w>\nHu nd</w>\n")
    (tmp_path / "tokenizer_config.json").write_text('{"langs": ["de", "en"], "do_lower_case": false}')
    fsmt = random_fsmt(0, tgt_vocab_size=35)
    fsmt.save_pretrained(tmp_path)
    import_checkpoint(tmp_path, tmp_path / "imported")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "imported")
    inputs = tokenizer(["Hund.", "Hund Hund"], return_tensors="pt", padding=True)
    assert inputs.input_ids[0].tolist() == [8, 9, 2]
    assert_same_model(
        fsmt,
        VaswaniForConditionalGeneration.from_pretrained(tmp_path / "imported"),
        {**inputs, "decoder_input_ids": torch.tensor([[2, 8], [2, 9]])},
    )


@pytest.mark.parametrize("side", ["src", "tgt"])
@pytest.mark.parametrize("ids", [["0", "1", "2", "3", "4"], [0, 1, 2, 3, "4"]])
def test_vocabulary_with_text_as_ids_is_one_error(tmp_path, side, ids):
    pytest.importorskip("sacremoses")
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "a</w>"]
    for name in ("src", "tgt"):
        vocabulary = dict(zip(tokens, ids if name == side else range(5)))
        (tmp_path / f"vocab-{name}.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "tokenizer_config.json").write_text('{"langs": ["de", "en"], "do_lower_case": false}')
    random_fsmt(0, src_vocab_size=5, tgt_vocab_size=5).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="must map tokens to whole numbers"):
        import_checkpoint(tmp_path, tmp_path / "imported")
