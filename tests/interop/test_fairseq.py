"""Checkpoints written here with fairseq's names and shapes, against a float64 forward pass from the formulas."""

import math
import sys
import types
from argparse import Namespace

import numpy as np
import pytest
import torch

from hf_vaswani.errors import InputError
from hf_vaswani.interop import import_model, import_tokenizer

from .. import reference

D, HEADS, FFN, SOURCE, TARGET, PAD, EOS = 16, 4, 24, 23, 27, 1, 2

POST = {
    "arch": "transformer",
    "encoder_embed_dim": D,
    "decoder_embed_dim": D,
    "encoder_ffn_embed_dim": FFN,
    "decoder_ffn_embed_dim": FFN,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": 2,
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "encoder_learned_pos": False,
    "decoder_learned_pos": False,
    "share_all_embeddings": False,
    "share_decoder_input_output_embed": False,
    "no_scale_embedding": False,
    "activation_fn": "relu",
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "layernorm_embedding": False,
    "adaptive_softmax_cutoff": None,
    "source_lang": "de",
    "target_lang": "en",
}
PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True, "max_source_positions": 30}
VARIANTS = {
    "post-norm": {},
    "pre-norm": PRE,
    "learned positions": LEARNED,
    "gelu, unscaled": {"activation_fn": "gelu", "no_scale_embedding": True},
    "no positions": {"no_token_positional_embeddings": True},
    "one matrix": {"share_all_embeddings": True, "share_decoder_input_output_embed": True},
    "target and output projection shared": {"share_decoder_input_output_embed": True},
}


def linear(name, outputs, inputs):
    weight = torch.randn(outputs, inputs) / math.sqrt(inputs)
    return {f"{name}.weight": weight, f"{name}.bias": torch.randn(outputs) / 5}


def norm(name):
    return {f"{name}.weight": 1 + torch.randn(D) / 5, f"{name}.bias": torch.randn(D) / 5}


def random_state(args):
    """The weights of a fairseq transformer under its names."""
    torch.manual_seed(0)
    state = {}
    for stack, vocabulary in (("encoder", SOURCE), ("decoder", TARGET)):
        state[f"{stack}.version"] = torch.tensor([3.0])
        state[f"{stack}.embed_tokens.weight"] = torch.randn(vocabulary, D) / 4
        state[f"{stack}.embed_tokens.weight"][PAD] = 0
        if args.get("encoder_learned_pos"):
            state[f"{stack}.embed_positions.weight"] = torch.randn(30 + PAD + 1, D) / 4
        elif not args.get("no_token_positional_embeddings"):
            state[f"{stack}.embed_positions._float_tensor"] = torch.zeros(1)
        for number in range(args[f"{stack}_layers"]):
            layer = f"{stack}.layers.{number}"
            for attention in ("self_attn",) if stack == "encoder" else ("self_attn", "encoder_attn"):
                for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    state |= linear(f"{layer}.{attention}.{projection}", D, D)
                state |= norm(f"{layer}.{attention}_layer_norm")
            state |= linear(f"{layer}.fc1", FFN, D) | linear(f"{layer}.fc2", D, FFN)
            state |= norm(f"{layer}.final_layer_norm")
        if args[f"{stack}_normalize_before"]:
            state |= norm(f"{stack}.layer_norm")
    if args["share_all_embeddings"]:
        state["decoder.embed_tokens.weight"] = state["encoder.embed_tokens.weight"]
    shared = args["share_decoder_input_output_embed"]
    embeddings = state["decoder.embed_tokens.weight"]
    state["decoder.output_projection.weight"] = embeddings if shared else torch.randn(TARGET, D) / 4
    return state


def write_checkpoint(folder, changes, form="args", **further):
    args = {**POST, **changes}
    state = random_state(args)
    contents = {"model": state, "optimizer_history": [{"num_updates": 7}], "extra_state": {}, **further}
    if form == "args":
        contents["args"] = Namespace(**args)
    else:
        task = {"_name": "translation", "source_lang": "de", "target_lang": "en"}
        contents |= {"args": None, "cfg": {"model": Namespace(**args, _name="transformer"), "task": task}}
    path = folder / "checkpoint_best.pt"
    torch.save(contents, path)
    return path, args, state


def fairseq_positions(args, state, stack, count):
    """The first token has position pad + 1; a learned table has as many rows before it."""
    if args.get("no_token_positional_embeddings"):
        return 0
    if args["encoder_learned_pos"]:
        return state[f"{stack}.embed_positions.weight"].double().numpy()[PAD + 1 : PAD + 1 + count]
    return reference.positions(range(PAD + 1, PAD + 1 + count), D, "halves", "tensor2tensor")


def expected_logits(args, state, source, target):
    weights = reference.to_numpy(state)
    transformer = reference.Transformer(
        weights,
        args["encoder_attention_heads"],
        args["decoder_attention_heads"],
        pre_norm=args["encoder_normalize_before"],
        activation=reference.ACTIVATIONS[args["activation_fn"]],
    )
    scale = 1 if args["no_scale_embedding"] else math.sqrt(D)

    def embed(stack, ids):
        return weights[f"{stack}.embed_tokens.weight"][ids] * scale + fairseq_positions(args, state, stack, len(ids))

    output = transformer.decode(transformer.encode(embed("encoder", source)), embed("decoder", target))
    return output @ weights["decoder.output_projection.weight"].T


def sentences():
    """Three sources that end with </s>, and targets after the </s> that fairseq starts with."""
    generator = np.random.default_rng(0)
    sources = [[*generator.integers(4, SOURCE, length), EOS] for length in (8, 3, 5)]
    targets = [[EOS, *generator.integers(4, SOURCE, 4)] for _ in sources]
    return sources, targets


def assert_same_logits(model, args, state):
    sources, targets = sentences()
    longest = max(map(len, sources))
    for side in ("left", "right"):
        ids = torch.full((len(sources), longest), PAD)
        for row, source in enumerate(sources):
            ids[row, longest - len(source) :] = torch.tensor(source)
            if side == "right":
                ids[row] = ids[row].roll(len(source) - longest)
        with torch.no_grad():
            logits = model(
                input_ids=ids, attention_mask=ids.ne(PAD).long(), decoder_input_ids=torch.tensor(targets)
            ).logits
        for row, (source, target) in enumerate(zip(sources, targets)):
            expected = expected_logits(args, state, source, target)
            np.testing.assert_allclose(logits[row], expected, atol=1e-5, err_msg=f"padding on the {side}")


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_imported_model_matches_the_formulas(tmp_path, changes):
    path, args, state = write_checkpoint(tmp_path, changes)
    assert_same_logits(import_model(path), args, state)


def test_options_in_cfg_are_read_like_those_in_args(tmp_path):
    path, args, state = write_checkpoint(tmp_path, PRE, form="cfg")
    assert_same_logits(import_model(tmp_path), args, state)


def test_nested_options_are_read(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    model = {"encoder": {}, "decoder": {}, "activation_fn": "relu"}
    for name, value in args.items():
        stack, _, option = name.partition("_")
        if stack in model:
            model[stack][option] = value
    cfg = {"model": model, "task": {"_name": "translation"}, "criterion": {"_name": "x", "label_smoothing": 0.2}}
    torch.save({"model": state, "args": None, "cfg": cfg}, path)
    imported = import_model(path)
    assert_same_logits(imported, args, state)
    assert imported.config.label_smoothing == 0.2


def test_shared_matrices_stay_shared(tmp_path):
    model = import_model(write_checkpoint(tmp_path, VARIANTS["one matrix"])[0])
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight


def test_weight_names_of_older_versions_are_read(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    old = {}
    norms = {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1, "final_layer_norm": {"encoder": 1, "decoder": 2}}
    for name, tensor in state.items():
        stack, *_, part, kind = name.split(".") if ".layers." in name else [name, "", ""]
        if part in ("q_proj", "k_proj", "v_proj"):
            joined = name.replace(f"{part}.{kind}", f"in_proj_{kind}")
            projections = [state[name.replace(part, p)] for p in ("q_proj", "k_proj", "v_proj")]
            old[joined] = torch.cat(projections)
        elif part in norms:
            number = norms[part] if isinstance(norms[part], int) else norms[part][stack]
            old[name.replace(part, f"layer_norms.{number}")] = tensor
        elif name == "decoder.output_projection.weight":
            old["decoder.embed_out"] = tensor
        else:
            old[name] = tensor
    torch.save({"model": old, "args": Namespace(**args)}, path)
    assert_same_logits(import_model(path), args, state)


def test_weights_in_half_precision_become_float32(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    state = {name: tensor.half() for name, tensor in state.items()}
    torch.save({"model": state, "args": Namespace(**args)}, path)
    model = import_model(path)
    assert model.dtype == torch.float32
    assert_same_logits(model, args, state)


def test_all_unsupported_options_are_reported_together(tmp_path):
    changes = {
        "layernorm_embedding": True,
        "adaptive_softmax_cutoff": "100,200",
        "activation_fn": "swish",
        "decoder_learned_pos": True,
        "arch": "lightconv",
    }
    path, *_ = write_checkpoint(tmp_path, changes)
    with pytest.raises(InputError) as error:
        import_model(path)
    for expected in (
        "layernorm_embedding=True",
        "adaptive_softmax_cutoff='100,200'",
        "activation_fn='swish'",
        "encoder_learned_pos=False with decoder_learned_pos=True",
        "arch='lightconv'",
    ):
        assert expected in str(error.value)


def test_weights_that_do_not_match_the_options_are_reported(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    state["decoder.layers.0.fc1.weight"] = torch.zeros(5, D)
    state["encoder.layers.0.ffn_layernorm.weight"] = torch.zeros(D)
    del state["encoder.layers.1.fc2.bias"]
    torch.save({"model": state, "args": Namespace(**args)}, path)
    with pytest.raises(InputError) as error:
        import_model(path)
    for name in ("decoder.layers.0.fc1.weight has shape (5, 16)", "ffn_layernorm", "encoder.layers.1.fc2.bias"):
        assert name in str(error.value)


def test_final_norm_in_only_one_stack_is_rejected(tmp_path):
    path, args, state = write_checkpoint(tmp_path, PRE)
    state = {name: tensor for name, tensor in state.items() if not name.startswith("decoder.layer_norm")}
    torch.save({"model": state, "args": Namespace(**args)}, path)
    with pytest.raises(InputError, match="a final norm only in the encoder"):
        import_model(path)


# Dictionaries.


def write_dictionary(folder, language, symbols, padded_to):
    fillers = [f"madeupword{number:04}" for number in range(padded_to - 4 - len(symbols))]
    lines = [f"{symbol} {100 - i}" for i, symbol in enumerate(symbols)] + [f"{filler} 0" for filler in fillers]
    (folder / f"dict.{language}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_dictionaries_become_a_tokenizer_of_space_separated_tokens(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "de", ["ein", "Hu@@", "nd", "."], SOURCE)
    write_dictionary(tmp_path, "en", ["a", "d@@", "og", "!"], TARGET)
    tokenizer = import_tokenizer(path)
    assert tokenizer("ein Hu@@ nd xyz").input_ids == [4, 5, 6, 3, EOS]
    assert tokenizer(text_target="a d@@ og").input_ids == [4, 5, 6, EOS]
    assert tokenizer.decode([EOS, 4, 5, 6, 7, EOS, PAD], skip_special_tokens=True) == "a dog !"
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id) == (PAD, EOS, 0)


def test_dictionary_that_does_not_match_the_weights_is_rejected(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "de", ["ein", "Hund"], SOURCE - 3)
    write_dictionary(tmp_path, "en", ["a", "dog"], TARGET)
    with pytest.raises(InputError, match=rf"dict\.de\.txt has {SOURCE - 3} symbols, .* has {SOURCE} embeddings"):
        import_tokenizer(path)


def test_invalid_dictionary_lines_are_reported(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "en", ["a", "dog"], TARGET)
    (tmp_path / "dict.de.txt").write_text("ein 5\nHund\nein 2\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        import_tokenizer(path)
    assert "line 2" in str(error.value)
    assert "line 3: 'ein' is repeated" in str(error.value)


def test_missing_dictionary_of_one_language_is_reported(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "de", ["ein"], SOURCE)
    with pytest.raises(InputError, match=r"missing: .*dict\.en\.txt"):
        import_tokenizer(path)


def test_checkpoint_without_dictionaries_has_no_tokenizer(tmp_path):
    assert import_tokenizer(write_checkpoint(tmp_path, {})[0]) is None


def test_bpe_codes_beside_the_checkpoint_split_text_into_subwords(tmp_path):
    pytest.importorskip("sacremoses")
    path, *_ = write_checkpoint(tmp_path, {})
    (tmp_path / "bpecodes").write_text("#version: 0.2\nH u\nn d</w>\nHu nd</w>\no g</w>\n", encoding="utf-8")
    write_dictionary(tmp_path, "de", ["Hund", "Hu@@", "n@@", "d", ".", "r@@"], SOURCE)
    write_dictionary(tmp_path, "en", ["d@@", "og", "."], TARGET)
    tokenizer = import_tokenizer(path)
    # Moses separates the period.
    assert tokenizer("Hund.").input_ids == [4, 8, EOS]
    assert tokenizer("rd").input_ids == [9, 7, EOS]
    assert tokenizer.eos_token_id == EOS
    assert tokenizer.decode([EOS, 4, 5, 6, EOS], skip_special_tokens=True) == "dog."


def test_sentencepiece_model_beside_the_checkpoint_splits_text(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    text = tmp_path / "text.txt"
    text.write_text("ein Hund\neine Katze\nder Hund\n" * 20, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "sentencepiece.bpe"), vocab_size=17, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.bpe.model"))
    path, *_ = write_checkpoint(tmp_path, {})
    # In a different order from the pieces of the SentencePiece model.
    pieces = sorted(processor.id_to_piece(number) for number in range(3, processor.get_piece_size()))
    write_dictionary(tmp_path, "de", pieces, SOURCE)
    write_dictionary(tmp_path, "en", pieces, TARGET)
    tokenizer = import_tokenizer(path)
    expected = [4 + pieces.index(piece) for piece in processor.encode("eine Katze", out_type=str)]
    assert tokenizer("eine Katze").input_ids == [*expected, EOS]
    assert tokenizer.decode(tokenizer(text_target="eine Katze").input_ids, skip_special_tokens=True) == "eine Katze"


def test_missing_output_projection_is_reported_unless_it_is_shared(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    del state["decoder.output_projection.weight"]
    torch.save({"model": state, "args": Namespace(**args)}, path)
    with pytest.raises(InputError, match=r"it lacks lm_head\.weight"):
        import_model(path)
    args["share_decoder_input_output_embed"] = True
    torch.save({"model": state, "args": Namespace(**args)}, path)
    state["decoder.output_projection.weight"] = state["decoder.embed_tokens.weight"]
    assert_same_logits(import_model(path), args, state)


@pytest.mark.parametrize("name", ["gelu_accurate", "gelu_fast"])
def test_approximate_gelu_is_the_tanh_approximation(tmp_path, name):
    def approximate(x):
        return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2

    path, args, state = write_checkpoint(tmp_path, {"activation_fn": name})
    model = import_model(path)
    x = torch.linspace(-3, 3, 50)
    activation = model.model.encoder.layers[0].activation_fn
    np.testing.assert_allclose(activation(x), approximate(x.double().numpy()), atol=1e-6)


def test_training_options_are_imported(tmp_path):
    changes = {"dropout": 0.3, "attention_dropout": 0.2, "relu_dropout": 0.15, "encoder_layerdrop": 0.05}
    config = import_model(write_checkpoint(tmp_path, changes)[0]).config
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.3, 0.2, 0.15)
    assert (config.encoder_layerdrop, config.label_smoothing) == (0.05, 0)
    config = import_model(write_checkpoint(tmp_path, {"label_smoothing": 0.1})[0]).config
    assert config.label_smoothing == 0.1


def test_duplicate_weights_stored_by_version_0_12_2_are_ignored(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    copies = {f"encoder.layers.{i}.{name}": torch.zeros(3) for i in (0, 1) for name in ("in_proj_weight", "fc1_bias")}
    torch.save({"model": state | copies, "args": Namespace(**args)}, path)
    assert_same_logits(import_model(path), args, state)


def test_pre_norm_models_of_old_versions_have_no_final_norms(tmp_path):
    path, args, state = write_checkpoint(tmp_path, PRE)
    state = {
        name: tensor for name, tensor in state.items() if not name.startswith(("encoder.layer_n", "decoder.layer_n"))
    }
    torch.save({"model": state, "args": Namespace(**args)}, path)
    with pytest.raises(InputError, match=r"encoder\.layer_norm and decoder\.layer_norm are missing"):
        import_model(path)
    state = {name: tensor for name, tensor in state.items() if not name.endswith(".version")}
    torch.save({"model": state, "args": Namespace(**args)}, path)
    config = import_model(path).config
    assert (config.norm_position, config.final_norm) == ("pre", False)


@pytest.mark.parametrize("changes", [{"arch": "transformer_unidirectional"}, {"_name": "transformer_monotonic"}])
def test_architecture_with_a_different_forward_pass_is_rejected(tmp_path, changes):
    with pytest.raises(InputError, match="is not supported; only transformer"):
        import_model(write_checkpoint(tmp_path, changes)[0])


def test_unknown_weights_are_reported(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    torch.save({"model": state | {"adapter.weight": torch.zeros(2, 2)}, "args": Namespace(**args)}, path)
    with pytest.raises(InputError, match=r"do not belong to this model: model\.adapter\.weight"):
        import_model(path)


@pytest.mark.parametrize(
    "contents",
    [
        {"model": [1], "args": Namespace()},
        {"model": None, "args": Namespace()},
        {"model": {"encoder.embed_tokens.weight": 3}, "args": Namespace()},
        {"model": {7: torch.zeros(2)}, "args": Namespace()},
        {"model": {"encoder.embed_tokens.weight": torch.tensor(3.0)}, "args": Namespace()},
        {"model": {"encoder.embed_tokens.weight": torch.zeros(2, 2)}, "args": "transformer"},
        {"model": {"encoder.embed_tokens.weight": torch.zeros(2, 2)}, "cfg": ["transformer"]},
        {"model": {"encoder.embed_tokens.weight": torch.zeros(2, 2)}, "args": Namespace(activation_fn=["relu"])},
        {"model": {"encoder.embed_tokens.weight": torch.zeros(2, 2)}, "args": Namespace(scale_attn=torch.zeros(2))},
    ],
    ids=str,
)
def test_contents_that_are_not_a_checkpoint_raise_one_clear_error(tmp_path, contents):
    torch.save(contents, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"model\.pt"):
        import_model(tmp_path / "model.pt")


def test_integer_weights_are_rejected(tmp_path):
    path, args, state = write_checkpoint(tmp_path, {})
    state["encoder.layers.0.fc1.weight"] = torch.zeros(FFN, D, dtype=torch.int8)
    torch.save({"model": state, "args": Namespace(**args)}, path)
    with pytest.raises(InputError, match=r"not floating-point numbers: model\.encoder\.layers\.0\.fc1\.weight"):
        import_model(path)


def test_options_of_the_wrong_type_raise_one_clear_error(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {"dropout": "0.1"})
    with pytest.raises(InputError, match="its configuration is invalid.*dropout"):
        import_model(path)


def test_special_symbol_in_a_dictionary_is_rejected(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "de", ["ein", "</s>"], SOURCE)
    write_dictionary(tmp_path, "en", ["a"], TARGET)
    with pytest.raises(InputError, match=r"dict\.de\.txt, line 2: '</s>' is repeated"):
        import_tokenizer(path)


def test_symbol_marked_to_overwrite_takes_the_later_id(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "de", ["ein", "Hund"], SOURCE - 1)
    with open(tmp_path / "dict.de.txt", "a", encoding="utf-8") as file:
        file.write("ein 3 #fairseq:overwrite\n")
    write_dictionary(tmp_path, "en", ["a"], TARGET)
    assert import_tokenizer(path)("ein Hund").input_ids == [SOURCE - 1, 5, EOS]


@pytest.mark.parametrize("content", [b"ein \xff 3\n", None], ids=["not UTF-8", "folder"])
def test_unreadable_dictionary_raises_one_clear_error(tmp_path, content):
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "en", ["a"], TARGET)
    file = tmp_path / "dict.de.txt"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(InputError, match=r"dict\.de\.txt cannot be read"):
        import_tokenizer(path)


def test_folder_without_the_dictionaries_is_rejected(tmp_path):
    path, *_ = write_checkpoint(tmp_path, {})
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"other has no dict\.de\.txt and dict\.en\.txt"):
        import_tokenizer(path, vocabularies=tmp_path / "other")


def test_damaged_subword_model_raises_one_clear_error(tmp_path):
    pytest.importorskip("sentencepiece")
    path, *_ = write_checkpoint(tmp_path, {})
    write_dictionary(tmp_path, "de", ["ein"], SOURCE)
    write_dictionary(tmp_path, "en", ["a"], TARGET)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"no model")
    with pytest.raises(InputError, match=r"sentencepiece\.bpe\.model cannot be read as a subword model"):
        import_tokenizer(path)


def test_pickled_statistics_with_fairseq_classes_do_not_prevent_the_import(tmp_path, monkeypatch):
    module = types.ModuleType("fairseq.meters")
    module.AverageMeter = type("AverageMeter", (), {"__module__": "fairseq.meters", "__qualname__": "AverageMeter"})
    monkeypatch.setitem(sys.modules, "fairseq", types.ModuleType("fairseq"))
    monkeypatch.setitem(sys.modules, "fairseq.meters", module)
    meter = module.AverageMeter()
    meter.val, meter.sum = np.float64(3.5), np.arange(3)
    path, args, state = write_checkpoint(tmp_path, {}, train_meters={"loss": meter})
    monkeypatch.undo()
    assert_same_logits(import_model(path), args, state)
