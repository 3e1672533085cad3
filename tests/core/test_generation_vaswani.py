import copy
from concurrent.futures import ThreadPoolExecutor
from types import MethodType

import pytest
import torch
from accelerate.utils import extract_model_from_parallel
from accelerate.utils.operations import convert_outputs_to_fp32
from transformers import DynamicCache, EncoderDecoderCache, MaxLengthCriteria, StoppingCriteriaList
from transformers.generation import EosTokenCriteria, GenerationMixin
from transformers.modeling_outputs import BaseModelOutput

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.core.modeling_cache import CACHE_NAME
from hf_vaswani.core.modeling_vaswani import VaswaniDecoder
from hf_vaswani.generation import mixin
from hf_vaswani.models.ensemble import Ensemble

from ..conftest import tiny_model

SOURCE = torch.tensor([[5, 9, 12, 7, 2], [6, 8, 2, 0, 0]])
MASK = SOURCE.ne(0).long()


def generate(model, **kwargs):
    return model.generate(input_ids=SOURCE, attention_mask=MASK, **kwargs)


def logits_by_hand(model, source, target):
    return model(input_ids=source, decoder_input_ids=target).logits[0, -1]


def test_greedy_search_takes_the_best_token_at_each_step():
    model = tiny_model()
    output = generate(model, max_new_tokens=6, num_beams=1, do_sample=False)
    target = torch.tensor([[model.config.decoder_start_token_id]])
    for _ in range(6):
        best = logits_by_hand(model, SOURCE[1:, :3], target).argmax().view(1, 1)
        target = torch.cat([target, best], dim=1)
        if best.item() == model.config.eos_token_id:
            break
    assert output[1, : target.shape[1]].tolist() == target[0].tolist()


@pytest.mark.parametrize("changes", [{}, {"norm_position": "pre", "position_type": "learned"}])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_search_gives_the_same_output_with_and_without_cache(num_beams, changes):
    model = tiny_model(**changes)
    with_cache = generate(model, max_new_tokens=12, num_beams=num_beams, use_cache=True)
    without = generate(model, max_new_tokens=12, num_beams=num_beams, use_cache=False)
    assert torch.equal(with_cache, without)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_labels_among_the_inputs_change_nothing_and_keep_the_fast_path(monkeypatch, num_beams):
    model, options = tiny_model(), {"num_beams": num_beams, "max_new_tokens": 6}
    expected = generate(model, **options)
    # The slow paths, for inputs that the search does not know.
    monkeypatch.setattr(mixin, "BatchedDecoder", None)
    monkeypatch.setattr(GenerationMixin, "_sample", None)
    assert torch.equal(generate(model, labels=torch.full((2, 3), 5), **options), expected)


def test_beam_search_finds_a_hypothesis_at_least_as_probable_as_greedy_search():
    model = tiny_model()

    def log_probability(num_beams):
        output = generate(model, max_new_tokens=3, num_beams=num_beams, length_penalty=0.0)
        logits = model(input_ids=SOURCE, attention_mask=MASK, decoder_input_ids=output[:, :-1]).logits
        tokens = logits.log_softmax(-1).gather(-1, output[:, 1:].unsqueeze(-1)).squeeze(-1)
        return tokens.masked_fill(output[:, 1:].eq(0), 0).sum(-1)

    assert (log_probability(40) >= log_probability(1) - 1e-5).all()


def test_sampling_follows_its_seed():
    model = tiny_model()
    samples = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        samples.append(generate(model, max_new_tokens=12, do_sample=True).tolist())
    assert samples[0] == samples[1]
    assert samples[0] != samples[2]


@pytest.mark.parametrize(
    "options",
    [{"top_k": 0}, {"top_k": 0, "temperature": 0.5}, {"top_k": 5}, {"top_k": 0, "top_p": 0.7},
     {"top_k": 0, "min_p": 0.3}, {"top_k": 0, "epsilon_cutoff": 0.03}, {"top_k": 0, "suppress_tokens": [5, 6, 7]},
     {"top_k": 0, "repetition_penalty": 3.0}],
    ids=lambda options: " ".join(options),
)  # fmt: skip
def test_samples_follow_the_processed_distribution_of_the_model(options):
    torch.manual_seed(0)
    model = tiny_model()
    rows = 20_000
    source, start = SOURCE[:1], torch.tensor([[model.config.decoder_start_token_id]])
    output = model.generate(source, do_sample=True, num_return_sequences=rows, max_new_tokens=2, **options)
    assert len(output) == rows
    # The second token, of the rows with the most frequent first one: what they begin with conditions it.
    firsts, counts = output[output[:, 1] != model.config.eos_token_id, 1].unique(return_counts=True)
    begun = torch.cat([start, firsts[counts.argmax()].view(1, 1)], dim=1)
    for prefix, drawn in ((start, output[:, 1]), (begun, output[output[:, 1] == begun[0, 1], 2])):
        # Scores are recorded by transformers' own sampling.
        recorded = model.generate(source, decoder_input_ids=prefix, do_sample=True, max_new_tokens=1,
                                  return_dict_in_generate=True, output_scores=True, **options)  # fmt: skip
        expected = recorded.scores[0].softmax(-1)[0]
        frequencies = drawn.bincount(minlength=len(expected)) / len(drawn)
        deviation = (expected * (1 - expected) / len(drawn)).sqrt()
        assert ((frequencies - expected).abs() <= 5 * deviation + 1e-6).all()
        assert expected.max() < 0.9 and frequencies[expected == 0].sum() == 0


def test_samples_are_greedy_if_no_token_is_as_probable_as_the_cutoff():
    model = tiny_model()
    sampled = generate(model, do_sample=True, top_k=0, epsilon_cutoff=0.99, max_new_tokens=12)
    assert torch.equal(sampled, generate(model, max_new_tokens=12))


def test_sample_does_not_depend_on_when_other_rows_end():
    model = tiny_model()
    torch.manual_seed(3)
    short = generate(model, do_sample=True, max_new_tokens=4)
    torch.manual_seed(3)
    long = generate(model, do_sample=True, max_new_tokens=40)
    width = min(short.shape[1], long.shape[1])
    assert torch.equal(short[:, :width], long[:, :width])


def test_sampling_from_damaged_weights_raises_an_error():
    model = tiny_model()
    torch.nn.init.constant_(model.model.decoder.layers[0].fc1.weight, torch.nan)
    with pytest.raises(ValueError, match="The model's scores are NaN"):
        generate(model, do_sample=True, max_new_tokens=4)


def test_output_ends_50_tokens_beyond_the_source_length():
    model = tiny_model()
    model.generation_config.eos_token_id = None
    assert generate(model, eos_token_id=None).shape[1] == 1 + SOURCE.shape[1] + 50


def test_given_length_overrides_that_of_the_source():
    model = tiny_model()
    assert generate(model, eos_token_id=None, max_new_tokens=7).shape[1] == 8
    assert generate(model, eos_token_id=None, max_length=7).shape[1] == 7


def test_output_stays_within_learned_positions():
    model = tiny_model(position_type="learned", max_position_embeddings=12)
    assert generate(model, eos_token_id=None).shape[1] <= 12


@pytest.mark.parametrize("num_beams", [1, 3])
def test_length_beyond_learned_positions_raises_when_it_is_reached(num_beams):
    model = tiny_model(position_type="learned", max_position_embeddings=12)
    with pytest.raises(ValueError, match="max_position_embeddings=12"):
        generate(model, eos_token_id=None, max_length=20, num_beams=num_beams)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_given_encoder_output_is_not_modified(num_beams):
    model = tiny_model()
    source, mask = SOURCE.flip(0), MASK.flip(0)  # the short sentence leaves first, and the other takes its place
    with torch.inference_mode():
        states = model.get_encoder()(source, attention_mask=mask).last_hidden_state
    before = states.clone()
    settings = {"num_beams": num_beams, "max_length_offset": 2, "attention_mask": mask}
    output = model.generate(encoder_outputs=BaseModelOutput(states), **settings)
    assert torch.equal(states, before)
    assert torch.equal(output, model.generate(source, **settings))


@pytest.mark.parametrize("num_beams", [1, 3])
def test_end_tokens_of_a_stopping_criterion_replace_those_of_the_config(num_beams):
    model = tiny_model()
    settings = {"num_beams": num_beams, "max_new_tokens": 12}
    end = generate(model, eos_token_id=None, **settings)[0, 2].item()
    output = generate(model, stopping_criteria=[EosTokenCriteria(end)], **settings)
    assert torch.equal(output, generate(model, eos_token_id=end, **settings))
    assert not torch.equal(output, generate(model, **settings))


@pytest.mark.parametrize("num_beams", [1, 3])
def test_entire_target_vocabulary_is_searched(num_beams):
    model = tiny_model(share_encoder_decoder_embeddings=False, vocab_size=13, decoder_vocab_size=90)
    output = generate(
        model,
        max_new_tokens=10,
        num_beams=num_beams,
        return_dict_in_generate=True,
        output_scores=True,
        output_logits=True,
    )
    assert output.logits[0].shape[-1] == 90
    scores = model.compute_transition_scores(
        output.sequences, output.scores, getattr(output, "beam_indices", None), normalize_logits=num_beams == 1
    )
    assert scores.isfinite().all()
    assert model.config.vocab_size == 13


def test_concurrent_searches_leave_the_config_unchanged():
    model = tiny_model(share_encoder_decoder_embeddings=False, vocab_size=13, decoder_vocab_size=30)
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda _: generate(model, max_new_tokens=8, num_beams=3).tolist(), range(12)))
    assert all(output == outputs[0] for output in outputs)
    assert model.config.vocab_size == 13


def test_untrained_model_generates_without_options():
    output = tiny_model().generate(SOURCE)
    assert output.shape[0] == 2
    assert output[:, 0].tolist() == [1, 1]


def lengths_without_padding(output):
    return (output.ne(0) & output.ne(2)).sum(-1).tolist()


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}, {"do_sample": True}], ids=["greedy", "beam", "sample"])
def test_each_output_ends_at_its_own_source_length_plus_the_offset(settings):
    model = tiny_model()
    output = generate(model, max_length_offset=4, suppress_tokens=[0, 2], **settings)
    assert lengths_without_padding(output) == [1 + 5 + 4, 1 + 3 + 4]


def test_length_given_in_the_call_overrides_the_offset_of_the_checkpoint():
    model = tiny_model()
    model.generation_config.max_length_offset = 2
    assert generate(model, eos_token_id=None).shape[1] == 1 + 5 + 2
    assert generate(model, eos_token_id=None, max_new_tokens=20).shape[1] == 21


@pytest.mark.parametrize("name, length", [("max_new_tokens", 21), ("max_length", 20)])
def test_length_set_in_a_copy_of_the_models_config_overrides_its_offset(name, length):
    model = tiny_model()
    model.generation_config.max_length_offset = 2
    config = copy.deepcopy(model.generation_config)
    assert generate(model, eos_token_id=None, generation_config=config).shape[1] == 1 + 5 + 2
    setattr(config, name, 20)
    assert generate(model, eos_token_id=None, generation_config=config).shape[1] == length
    config.max_length_offset = 9
    assert generate(model, eos_token_id=None, generation_config=config).shape[1] == 1 + 5 + 9


def test_number_of_new_tokens_set_in_the_models_config_overrides_its_offset():
    model = tiny_model()
    model.generation_config.update(max_new_tokens=20)
    model.generation_config.max_length_offset = 2
    assert generate(model, eos_token_id=None).shape[1] == 21


@pytest.mark.parametrize("num_beams", [1, 3])
def test_empty_cache_of_the_caller_is_filled(num_beams):
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    generate(tiny_model(), eos_token_id=None, num_beams=num_beams, **{CACHE_NAME: cache}, max_new_tokens=6)
    assert cache.get_seq_length() == 6


def test_encoder_outputs_may_be_a_tuple():
    model = tiny_model()
    states = model.get_encoder()(input_ids=SOURCE).last_hidden_state
    given = model.generate(attention_mask=torch.ones_like(SOURCE), encoder_outputs=(states,), max_new_tokens=6)
    assert torch.equal(given, generate(model, max_new_tokens=6))


def test_length_may_be_a_tensor_without_dimensions():
    assert generate(tiny_model(), eos_token_id=None, max_new_tokens=torch.tensor(6)).shape[1] == 7


def test_length_criterion_of_the_caller_replaces_the_length():
    criteria = StoppingCriteriaList([MaxLengthCriteria(9)])
    assert generate(tiny_model(), eos_token_id=None, max_length=6, stopping_criteria=criteria).shape[1] == 9


def test_length_and_offset_given_together_both_apply():
    model = tiny_model()
    assert generate(model, eos_token_id=None, max_new_tokens=6, max_length_offset=9).shape[1] == 7
    assert generate(model, eos_token_id=None, max_new_tokens=20, max_length_offset=9).shape[1] == 1 + 5 + 9


def test_package_specific_settings_survive_saving(tmp_path):
    model = tiny_model()
    model.generation_config.update(num_beams=4, length_penalty=0.6)
    model.generation_config.length_penalty_type = "gnmt"
    model.generation_config.max_length_offset = 7
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert generate(loaded, eos_token_id=None).shape[1] == 1 + 5 + 7
    ours, theirs = (generate(m, return_dict_in_generate=True).sequences_scores for m in (loaded, model))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("setting", [{"length_penalty_type": "paper"}, {"max_length_offset": -1}])
def test_invalid_settings_are_rejected(setting):
    [name] = setting
    with pytest.raises(ValueError, match=name):
        generate(tiny_model(), **setting)


def test_streamer_gets_each_token_of_greedy_search():
    class Streamer:
        def __init__(self):
            self.tokens = []

        def put(self, tokens):
            self.tokens += tokens.flatten().tolist()

        def end(self):
            self.tokens.append("end")

    model, streamer = tiny_model(), Streamer()
    output = model.generate(SOURCE[:1], streamer=streamer, max_new_tokens=6)
    assert streamer.tokens == [*output[0].tolist(), "end"]


# Hooks and replaced forward methods.


def forbid_slow_paths(monkeypatch):
    monkeypatch.setattr(mixin, "BatchedDecoder", None)
    monkeypatch.setattr(GenerationMixin, "_sample", None)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("part", ["", "model", "model.decoder", "model.decoder.layers.0.fc1", "lm_head"])
@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_see_one_row_per_hypothesis_at_each_step(num_beams, part, kind):
    model = tiny_model()
    search = {"num_beams": num_beams, "max_new_tokens": 6, "eos_token_id": None}
    expected = generate(model, **search)
    rows = []

    def hook(module, args, kwargs, output=None):
        inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        rows.append(len(inputs[0]))

    getattr(model.get_submodule(part), kind)(hook, with_kwargs=True)
    assert torch.equal(generate(model, **search), expected)
    assert rows == 6 * [2 * num_beams]


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("part", ["", "model.decoder.embed_tokens"])
def test_replaced_forward_is_called_at_each_step(num_beams, part):
    model = tiny_model()
    search = {"num_beams": num_beams, "max_new_tokens": 6, "eos_token_id": None}
    expected = generate(model, **search)
    calls, module = [], model.get_submodule(part)
    forward = module.forward
    module.forward = lambda *args, **kwargs: calls.append(1) or forward(*args, **kwargs)
    assert torch.equal(generate(model, **search), expected)
    assert len(calls) == 6


class Shifted(VaswaniForConditionalGeneration):
    """Has the logits of its base class, moved by one token."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits.roll(1, dims=-1)
        return output


class Constant(VaswaniDecoder):
    """Has the same states whatever it reads."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.last_hidden_state = torch.ones_like(output.last_hidden_state)
        return output


def with_decoder(decoder):
    model = tiny_model()
    made = decoder(model.config).eval()
    made.load_state_dict(model.model.decoder.state_dict())
    model.model.decoder = made
    return model


def shifted():
    model = Shifted(tiny_model().config).eval()
    model.load_state_dict(tiny_model().state_dict())
    return model


@pytest.mark.parametrize("settings", [{"num_beams": 1}, {"num_beams": 3}, {"do_sample": True, "top_k": 1}])
@pytest.mark.parametrize(
    "make",
    [shifted, lambda: with_decoder(Constant), lambda: Ensemble([shifted(), tiny_model()])],
    ids=["model", "decoder", "member of an ensemble"],
)
def test_forward_overridden_in_a_subclass_decides_the_output(make, settings):
    model, search = make(), {"max_new_tokens": 6, "eos_token_id": None}
    # Without a cache, each step is a call of the model.
    expected = generate(model, **search, **settings, use_cache=False)
    assert torch.equal(generate(model, **search, **settings), expected)
    assert not torch.equal(generate(tiny_model(), **search, **settings), expected)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_inputs_prepared_by_a_subclass_are_used(num_beams):
    calls = []

    class Prepared(VaswaniForConditionalGeneration):
        def prepare_inputs_for_generation(self, *args, **kwargs):
            calls.append(1)
            return super().prepare_inputs_for_generation(*args, **kwargs)

    generate(Prepared(tiny_model().config).eval(), num_beams=num_beams, max_new_tokens=4, eos_token_id=None)
    assert len(calls) == 4


@pytest.mark.parametrize("watched", ["", "members.1"])
def test_hook_on_an_ensemble_or_a_member_is_called_at_each_step(watched):
    ensemble, calls = Ensemble([tiny_model(), tiny_model()]), []
    ensemble.get_submodule(watched).register_forward_hook(lambda *_: calls.append(1))
    generate(ensemble, num_beams=2, max_new_tokens=5, eos_token_id=None)
    assert len(calls) == 5


@pytest.mark.parametrize("num_beams", [1, 3])
def test_encoder_hooks_and_those_of_transformers_keep_the_fast_path(monkeypatch, num_beams):
    model, search = tiny_model("eager"), {"num_beams": num_beams, "max_new_tokens": 6}
    expected = generate(model, **search)
    generate(model, **search, return_dict_in_generate=True, output_attentions=True, output_hidden_states=True)
    calls = []
    model.get_encoder().register_forward_hook(lambda *_: calls.append(1))
    forbid_slow_paths(monkeypatch)
    assert torch.equal(generate(model, **search), expected)
    assert len(calls) == 1


@pytest.mark.parametrize("num_beams", [1, 3])
def test_device_map_with_a_single_device_keeps_the_fast_path(monkeypatch, tmp_path, num_beams):
    model, search = tiny_model(), {"num_beams": num_beams, "max_new_tokens": 6}
    model.save_pretrained(tmp_path)
    mapped = VaswaniForConditionalGeneration.from_pretrained(tmp_path, device_map="cpu")
    forbid_slow_paths(monkeypatch)
    assert torch.equal(generate(mapped, **search), generate(model, **search))


def test_model_prepared_for_mixed_precision_keeps_the_fast_path(monkeypatch):
    model = tiny_model()
    expected = generate(model, max_new_tokens=6)
    model.forward = MethodType(convert_outputs_to_fp32(model.forward.__func__), model)  # what Accelerate does
    forbid_slow_paths(monkeypatch)
    assert torch.equal(generate(model, max_new_tokens=6), expected)


def test_model_unwrapped_from_mixed_precision_keeps_the_fast_path(monkeypatch):
    model = tiny_model()
    expected = generate(model, max_new_tokens=6)
    model._original_forward = model.forward  # what Accelerate does
    model.forward = MethodType(convert_outputs_to_fp32(torch.autocast("cpu")(model.forward.__func__)), model)
    extract_model_from_parallel(model, keep_fp32_wrapper=False)
    forbid_slow_paths(monkeypatch)
    assert torch.equal(generate(model, max_new_tokens=6), expected)
