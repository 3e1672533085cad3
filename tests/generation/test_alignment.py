"""Attention weights of given translations, for Vaswani and other models, and the alignments derived from them."""

import math

import numpy as np
import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from hf_vaswani import VaswaniTokenizer
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.generation.alignment import alignments, evaluation, forced_attentions, text_mask, to_tokens

from .. import reference
from ..conftest import tiny_model, word_tokenizer
from ..core.test_modeling_vaswani import variants

PAD, START, END = 0, 1, 2
LENGTHS = (6, 4)
SOURCE = torch.tensor([[5, 6, 7, 8, 9, END], [11, 12, 13, END, PAD, PAD]])
INPUTS = {"input_ids": SOURCE, "attention_mask": SOURCE.ne(PAD).long()}
OUTPUT = torch.tensor([[START, 14, 15, 16, END], [START, 17, END, PAD, PAD]])

SIZES = {
    "vocab_size": 40, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "pad_token_id": PAD,
}  # fmt: skip
T5_SIZES = {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_decoder_layers": 3}
MODELS = {
    "Marian": lambda: MarianMTModel(MarianConfig(**SIZES)),
    "Bart": lambda: BartForConditionalGeneration(BartConfig(**SIZES)),
    "mBART": lambda: MBartForConditionalGeneration(MBartConfig(**SIZES)),
    "M2M100": lambda: M2M100ForConditionalGeneration(M2M100Config(**SIZES)),
    "T5": lambda: T5ForConditionalGeneration(T5Config(**T5_SIZES, num_heads=4)),
    "Vaswani": lambda: tiny_model(decoder_layers=3),
    "Vaswani without LM head": lambda: tiny_model(decoder_layers=3).model,
}
models = pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS.keys())


def make(make_model) -> PreTrainedModel:
    torch.manual_seed(0)
    return make_model().eval()


class RecordingTransformer(reference.Transformer):
    """The reference, which also records the weights of each attention by name."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.recorded = {}

    def _attention(self, name, allowed=True, memory=None):
        attend = super()._attention(name, allowed, memory)

        def record(x):
            source, heads = x if memory is None else memory, self.heads[name.split(".")[0]]
            q, k = self._linear(x, f"{name}.q_proj"), self._linear(source, f"{name}.k_proj")
            scores = [a @ b.T / math.sqrt(a.shape[1]) for a, b in zip(*(np.split(p, heads, axis=1) for p in (q, k)))]
            weights = np.exp(np.where(allowed, scores, -np.inf))
            self.recorded[name] = weights / weights.sum(-1, keepdims=True)
            return attend(x)

        return record


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_attention_weights_equal_those_computed_in_float64(norm):
    model = tiny_model(norm_position=norm, decoder_layers=3)
    weights = reference.to_numpy(model.model.state_dict())
    transformer = RecordingTransformer(weights, encoder_heads=2, decoder_heads=4, pre_norm=norm == "pre")

    def embed(ids):
        return weights["shared.weight"][ids] * 4 + reference.positions(range(len(ids)), 16)

    got = forced_attentions(model, INPUTS, OUTPUT)
    for row, (source_length, target_length) in enumerate([(6, 4), (4, 2)]):
        memory = transformer.encode(embed(SOURCE[row, :source_length].numpy()))
        transformer.decode(memory, embed(OUTPUT[row, :target_length].numpy()))
        for name, part, layers in (
            ("encoder.layers.{}.self_attn", got.encoder, 2),
            ("decoder.layers.{}.self_attn", got.decoder, 3),
            ("decoder.layers.{}.encoder_attn", got.cross, 3),
        ):
            expected = np.stack([transformer.recorded[name.format(layer)] for layer in range(layers)])
            rows, columns = expected.shape[2:]
            np.testing.assert_allclose(part[row, :, :, :rows, :columns].numpy(), expected, atol=1e-6)
            assert part[row, :, :, rows:].sum() == part[row, :, :, :, columns:].sum() == 0


@models
def test_weights_of_each_token_sum_to_one_and_padding_has_none(make_model):
    got = forced_attentions(make(make_model), INPUTS, OUTPUT)
    is_source, is_target = SOURCE.ne(PAD), OUTPUT[:, 1:].ne(PAD)
    for part, is_token in zip(got, (is_source, is_target, is_target)):
        assert part.dtype == torch.float32
        sums = part.sum(dim=-1)
        torch.testing.assert_close(sums, is_token[:, None, None].expand_as(sums).float())
    assert got.cross.shape == (2, 3, 4, 4, 6) and got.decoder.shape == (2, 3, 4, 4, 4)
    assert got.cross[1, :, :, :, 4:].sum() == 0
    assert got.decoder.triu(diagonal=1).sum() == 0  # no token looks at later ones


def assert_padding_changes_no_weights(model):
    batch = forced_attentions(model, INPUTS, OUTPUT)
    alone = forced_attentions(model, {"input_ids": SOURCE[1:, :4]}, OUTPUT[1:, :3])
    torch.testing.assert_close(batch.encoder[1:, :, :, :4, :4], alone.encoder)
    torch.testing.assert_close(batch.decoder[1:, :, :, :2, :2], alone.decoder)
    torch.testing.assert_close(batch.cross[1:, :, :, :2, :4], alone.cross)


@models
def test_batch_padding_does_not_change_the_weights(make_model):
    assert_padding_changes_no_weights(make(make_model))


@variants
def test_batch_padding_does_not_change_the_weights_of_any_variant(changes):
    assert_padding_changes_no_weights(make(lambda: tiny_model(**changes)))


@models
def test_several_hypotheses_give_the_weights_of_a_repeated_source(make_model):
    model = make(make_model)
    output = torch.cat([OUTPUT, OUTPUT.flip(0)])
    repeated = {name: tensor.repeat_interleave(2, dim=0) for name, tensor in INPUTS.items()}
    got, expected = forced_attentions(model, INPUTS, output), forced_attentions(model, repeated, output)
    torch.testing.assert_close(got.cross, expected.cross)
    torch.testing.assert_close(got.decoder, expected.decoder)
    torch.testing.assert_close(got.encoder, expected.encoder[::2])


def test_source_is_encoded_once_for_all_hypotheses():
    model = tiny_model()
    batches = []
    model.model.encoder.register_forward_hook(lambda module, args, output: batches.append(len(args[0])))
    forced_attentions(model, INPUTS, OUTPUT.repeat_interleave(3, dim=0))
    assert batches == [2]


def test_each_row_equals_the_attention_of_its_generation_step():
    model = tiny_model(attn_implementation="eager")
    output = model.generate(
        **INPUTS, max_new_tokens=5, do_sample=False, return_dict_in_generate=True, output_attentions=True
    )
    forced = forced_attentions(model, INPUTS, output.sequences)
    assert len(output.cross_attentions) == 5
    for step, weights in enumerate(output.cross_attentions):
        is_token = output.sequences[:, step + 1].ne(PAD)
        expected = torch.stack(weights, dim=1)[:, :, :, -1] * INPUTS["attention_mask"][:, None, None]
        torch.testing.assert_close(forced.cross[is_token, :, :, step], expected[is_token])


@models
def test_model_is_not_changed_meanwhile(make_model):
    model = make(make_model)
    model.train()
    next(model.children()).eval()  # modes may differ between modules
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]

    def state():
        modules = list(model.modules())
        hooks = [len(part._forward_hooks) for part in modules]
        return [part.config._attn_implementation for part in parts], [part.training for part in modules], hooks

    before, seen = state(), []
    assert "sdpa" in before[0] and {True, False} == set(before[1])
    # Another thread could use the model at any moment: at that of each hook, for example.
    linear = next(part for part in model.modules() if isinstance(part, torch.nn.Linear))
    linear.register_forward_pre_hook(lambda *_: seen.append(state()))
    forced_attentions(model, INPUTS, OUTPUT)
    assert seen and all(each == before for each in [*seen, state()])


@models
def test_copies_for_evaluation_share_all_weights(make_model):
    model = make(make_model).train()
    with evaluation(model, "eager") as copied:
        assert copied is not model
        assert [id(weight) for weight in copied.parameters()] == [id(weight) for weight in model.parameters()]
        parts = [part for part in copied.modules() if hasattr(part, "config")]
        assert {part.config._attn_implementation for part in parts} == {"eager"}
        assert not any(part.training for part in copied.modules())
        assert copied.get_input_embeddings() is not model.get_input_embeddings()


def patch_forward(model):
    forward = model.forward
    model.forward = lambda **kwargs: forward(**kwargs)


def compile_forward(model):
    model.forward = torch.compile(model.forward, backend="eager")


def compile_encoder(model):
    model.model.encoder = torch.compile(model.model.encoder, backend="eager")


def normalize_weights(model):
    torch.nn.utils.parametrizations.weight_norm(model.model.encoder.layers[0].fc1)


def keep_list_of_layers(model):
    model.model.encoder.own = list(model.model.encoder.layers)


def shard(model):
    # The class of a sharded module makes a new one where a copy is asked for, without its arguments.
    layer = model.model.encoder.layers[0]
    new = lambda cls, *arguments: cls(*arguments)  # noqa: E731
    layer.__class__ = type("Sharded", (type(layer),), {"__new__": new, "__module__": type(layer).__module__})


@pytest.mark.parametrize(
    "change",
    [
        patch_forward,
        shard,
        compile_forward,
        pytest.param(compile_encoder, marks=pytest.mark.slow),
        normalize_weights,
        keep_list_of_layers,
    ],
)
def test_models_that_cannot_be_copied_are_switched_and_switched_back(change):
    model = tiny_model(attention_dropout=0.9, dropout=0.5).eval()
    change(model)
    expected = forced_attentions(model, INPUTS, OUTPUT)
    assert not model.training and model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(forced_attentions(model.train(), INPUTS, OUTPUT), expected)
    assert all(part.training for part in model.modules())
    with pytest.raises(RuntimeError, match="stop"), evaluation(model) as switched:
        assert switched is model and not any(part.training for part in model.modules())
        raise RuntimeError("stop")
    assert all(part.training for part in model.modules())


def test_weights_of_a_model_in_training_mode_are_computed_without_dropout():
    model = tiny_model(attention_dropout=0.9, dropout=0.5, encoder_layerdrop=0.9)
    expected = forced_attentions(model, INPUTS, OUTPUT)
    torch.testing.assert_close(forced_attentions(model.train(), INPUTS, OUTPUT), expected)


def test_unusable_output_ids_are_rejected():
    model = tiny_model()
    with pytest.raises(ValueError, match="3 hypotheses are not a multiple of 2 sources"):
        forced_attentions(model, INPUTS, OUTPUT[[0, 1, 1]])
    with pytest.raises(ValueError, match="no tokens after the decoder start token"):
        forced_attentions(model, INPUTS, OUTPUT[:, :1])


# Alignments.


def peaks(columns, source_length, sharpness=0.6):
    """Weights `(1, 1, 1, len(columns), source_length)` with a peak in one column of each row."""
    weights = torch.full((len(columns), source_length), (1 - sharpness) / (source_length - 1))
    weights[torch.arange(len(columns)), torch.tensor(columns)] = sharpness
    return weights[None, None, None]


def test_target_tokens_are_aligned_to_the_source_token_with_the_highest_weight():
    everything = torch.ones(1, 3, dtype=torch.bool)
    assert alignments(peaks([2, 0, 0], 3), everything, everything) == [[(2, 0), (0, 1), (0, 2)]]


def test_heads_are_averaged():
    cross = torch.cat([peaks([0], 3, 0.6), peaks([1], 3, 0.9), peaks([0], 3, 0.6)], dim=2)
    # Means: (0.6 + 0.05 + 0.6) / 3 = 0.417 and (0.2 + 0.9 + 0.2) / 3 = 0.433, though two of three heads favor 0.
    assert alignments(cross, torch.ones(1, 3).bool(), torch.ones(1, 1).bool()) == [[(1, 0)]]


@pytest.mark.parametrize(("layers", "default"), [(1, 0), (2, 1), (3, 2), (4, 3), (6, 4), (12, 9)])
def test_default_layer_is_five_sixths_of_the_way_up(layers, default):
    cross = torch.cat([peaks([layer], 12) for layer in range(layers)], dim=1)
    masks = torch.ones(1, 12).bool(), torch.ones(1, 1).bool()
    assert alignments(cross, *masks) == [[(default, 0)]]
    assert alignments(cross, *masks, layer=-1) == [[(layers - 1, 0)]]


def test_special_tokens_are_neither_aligned_nor_counted():
    # Source: language, a, b, end; target: language, x, y, end, padding. All rows attend most to the source's end.
    cross = 0.6 * peaks([3, 3, 3, 3, 3], 4, 1.0) + 0.4 * peaks([0, 2, 1, 2, 0], 4, 1.0)
    source_mask = torch.tensor([[False, True, True, False]])
    target_mask = torch.tensor([[False, True, True, False, False]])
    assert alignments(cross, source_mask, target_mask) == [[(1, 0), (0, 1)]]


def test_batch_rows_are_aligned_independently():
    cross = torch.cat([peaks([2, 1, 0], 3), peaks([0, 1, 1], 3)])
    source_mask = torch.tensor([[True, True, True], [True, True, False]])
    target_mask = torch.tensor([[True, True, True], [True, False, False]])
    assert alignments(cross, source_mask, target_mask) == [[(2, 0), (1, 1), (0, 2)], [(0, 0)]]


def test_source_without_text_has_no_alignment():
    assert alignments(peaks([0], 2), torch.zeros(1, 2).bool(), torch.ones(1, 1).bool()) == [[]]


def test_text_mask_covers_unknown_words_but_not_special_tokens(tokenizer):
    ids = torch.tensor([[1, 5, 3, 6, 2, 0]])
    assert tokenizer.convert_ids_to_tokens(ids[0]) == ["<s>", "w1", "<unk>", "w2", "</s>", "<pad>"]
    assert text_mask(tokenizer, ids).tolist() == [[False, True, True, True, False, False]]


def test_tokens_come_from_the_vocabulary_of_each_side():
    sides = word_tokenizer(["ein", "Hund"]), word_tokenizer(["a", "dog"])
    tokenizer = VaswaniTokenizer.from_backends(*sides, **SPECIAL_TOKENS)
    assert to_tokens(tokenizer, [4, 5, 2]) == ["ein", "Hund", "</s>"]
    assert to_tokens(tokenizer, [4, 5, 2], is_target=True) == ["a", "dog", "</s>"]


def test_alignments_are_read_off_the_heads_of_the_config():
    cross = torch.rand(2, 3, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    masks = torch.ones(2, 6, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool)
    chosen = (cross[:, 0, 3] + cross[:, 2, 1]).argmax(-1).tolist()
    expected = [[(source, target) for target, source in enumerate(row)] for row in chosen]
    assert alignments(cross, *masks, heads=[[0, 3], [2, 1]]) == expected
