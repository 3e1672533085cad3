import itertools
from types import SimpleNamespace

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook
from transformers import MarianConfig, MarianMTModel
from transformers.generation import GenerationMixin

from hf_vaswani.core.generation_beam_search import BeamSearch, Scoring
from hf_vaswani.generation.fast_beam_search import (
    FastBeamSearch,
    GreedySearch,
    UnfinishedSentences,
    close_ranks,
    draw,
    top,
)
from hf_vaswani.interop import import_model

from ..conftest import tiny_model

EOS, PAD = 2, 1


@pytest.fixture(scope="module")
def marian():
    """A random MarianMT in float64, in which no two hypotheses score so closely that rounding decides."""
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=97,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        max_position_embeddings=64,
        scale_embedding=True,
        init_std=0.6,
    )
    model = MarianMTModel(config).eval().double()
    model.final_logits_bias[0, EOS] = 4
    return model


@pytest.fixture(scope="module")
def vaswani(marian):
    return import_model(marian).eval()


@pytest.fixture(scope="module")
def sources():
    """200 sentences of 2 to 20 tokens."""
    generator = torch.Generator().manual_seed(2)
    rows = [torch.randint(3, 97, (n,), generator=generator).tolist() for n in [1, 4, 7, 19] * 50]
    return padded([[*row, EOS] for row in rows])


def padded(rows):
    width = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": ids.ne(PAD).long()}


LONG = {"num_beams": 4, "max_length": 24}
SETTINGS = {
    "greedy": {"max_length": 24},
    "one beam, n-grams": {"max_length": 24, "no_repeat_ngram_size": 2},
    **{
        f"{beams} beams, early stopping {early}, penalty {penalty}": {
            "num_beams": beams,
            "early_stopping": early,
            "length_penalty": penalty,
            "max_length": 24,
        }
        for beams, early, penalty in [
            (2, True, 1.0), (2, False, 0.0), (4, "never", 0.0), (4, True, 0.6), (4, False, 0.6), (4, "never", 0.6),
            (4, False, 2.0), (4, "never", 2.0), (8, False, 1.0), (8, "never", 1.0), (4, False, -1.0),
        ]
    },
    "4 of 4 hypotheses": {**LONG, "num_return_sequences": 4},
    "2 of 4 hypotheses": {**LONG, "num_return_sequences": 2, "length_penalty": 0.0},
    "minimum length": {**LONG, "min_new_tokens": 8},
    "n-grams": {**LONG, "no_repeat_ngram_size": 2},
    "forced start": {**LONG, "forced_bos_token_id": 7},
    "forced end": {**LONG, "forced_eos_token_id": EOS},
    "two end tokens": {**LONG, "eos_token_id": [EOS, 9]},
    "no end token": {**LONG, "eos_token_id": None},
    "repetition penalty": {**LONG, "repetition_penalty": 1.3},
    "bad words": {**LONG, "bad_words_ids": [[5], [7, 8]]},
    "rules per sentence": {**LONG, "prefix_allowed_tokens_fn": lambda row, ids: [EOS, *range(3 + row % 7, 60)]},
    "prompt": {**LONG, "decoder_input_ids": torch.tensor([[PAD, 5, 6]]).repeat(200, 1)},
}  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_hypotheses_and_scores_match_transformers(marian, vaswani, sources, settings):
    scores = {"return_dict_in_generate": True, "output_scores": True} if settings.get("num_beams", 1) > 1 else {}
    theirs = marian.generate(**sources, **settings, **scores)
    ours = vaswani.generate(**sources, **settings, return_dict_in_generate=bool(scores))
    if not scores:
        assert torch.equal(ours, theirs)
        return
    assert torch.equal(ours.sequences, theirs.sequences)
    torch.testing.assert_close(ours.sequences_scores, theirs.sequences_scores, rtol=1e-4, atol=1e-4)


def test_recorded_outputs_match_transformers(marian, vaswani, sources):
    few = {name: tensor[:6] for name, tensor in sources.items()}
    recorded = ("scores", "logits", "attentions", "hidden_states")
    settings = {"num_beams": 3, "max_length": 9, **{f"output_{name}": True for name in recorded}}
    marian.set_attn_implementation("eager")
    vaswani.set_attn_implementation("eager")
    ours, theirs = (model.generate(**few, **settings, return_dict_in_generate=True) for model in (vaswani, marian))
    marian.set_attn_implementation("sdpa")
    vaswani.set_attn_implementation("sdpa")
    assert torch.equal(ours.beam_indices, theirs.beam_indices)
    for name in ("scores", "logits", "encoder_attentions"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-4, check_dtype=False)
    for name in ("decoder_attentions", "cross_attentions", "decoder_hidden_states"):
        for mine, other in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            assert [tensor.shape for tensor in mine] == [tensor.shape for tensor in other]
    torch.testing.assert_close(
        ours.cross_attentions[-1], theirs.cross_attentions[-1], rtol=1e-4, atol=1e-4, check_dtype=False
    )


@pytest.mark.parametrize("num_beams", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_output_of_a_sentence_does_not_depend_on_its_batch(vaswani, sources, num_beams):
    settings = {"num_beams": num_beams, "length_penalty_type": "gnmt", "length_penalty": 0.6, "max_length_offset": 5}

    def translate(rows):
        outputs = vaswani.generate(**padded(rows), **settings).tolist()
        return [[token for token in output if token not in (PAD, EOS)] for output in outputs]

    rows = [[token for token in row if token != PAD] for row in sources["input_ids"][:40].tolist()]
    alone = [translate([row])[0] for row in rows]
    order = torch.randperm(40, generator=torch.Generator().manual_seed(3)).tolist()
    for batch_size, arrangement in itertools.product((8, 40), (range(40), order)):
        chosen = [rows[i] for i in arrangement]
        batches = [translate(chosen[i : i + batch_size]) for i in range(0, 40, batch_size)]
        assert [output for batch in batches for output in batch] == [alone[i] for i in arrangement]


def log_probabilities(model, source, targets):
    """For one source and targets of equal length: the summed log-probabilities of all tokens after the first."""
    targets = torch.tensor(targets)
    sources = source.expand(len(targets), -1)
    probabilities = model(input_ids=sources, decoder_input_ids=targets[:, :-1]).logits.softmax(-1)
    return probabilities.gather(-1, targets[:, 1:, None]).log().sum((1, 2)).tolist()


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_wide_beam_finds_the_best_hypothesis_of_an_exhaustive_search(alpha):
    model = tiny_model(vocab_size=6).double()
    start, end, longest = model.config.decoder_start_token_id, model.config.eos_token_id, 5
    source = torch.tensor([[3, 5, 4, 2]])
    others = [token for token in range(6) if token != end]
    hypotheses = []
    for length in range(1, longest + 1):
        bodies = itertools.product(others, repeat=length - 1)
        ends = range(6) if length == longest else [end]
        targets = [[start, *body, last] for body in bodies for last in ends]
        sums = log_probabilities(model, source, targets)
        hypotheses += [(total / ((5 + length) / 6) ** alpha, target) for total, target in zip(sums, targets)]
    best, found = max(hypotheses)
    output = model.generate(
        source,
        num_beams=600,
        length_penalty=alpha,
        length_penalty_type="gnmt",
        max_new_tokens=longest,
        return_dict_in_generate=True,
    )
    assert output.sequences[0].tolist()[: len(found)] == found
    assert output.sequences_scores.item() == pytest.approx(best, abs=1e-5)


def test_scores_are_divided_by_the_length_penalty_of_the_paper(vaswani, sources):
    rows = sources["input_ids"][3:4]
    output = vaswani.generate(
        rows, num_beams=4, length_penalty=0.6, length_penalty_type="gnmt", max_length=24, return_dict_in_generate=True
    )
    target = output.sequences[0].tolist()
    [total] = log_probabilities(vaswani, rows, [target])
    expected = total / ((5 + len(target) - 1) / 6) ** 0.6
    assert output.sequences_scores.item() == pytest.approx(expected, rel=1e-5)


@pytest.fixture
def record_input_shapes():
    """Starts recording the shape of the input of each call of a module.

    The hook is on all modules, since one on a decoder module makes the search take a different path.
    """
    handles = []

    def start(module):
        shapes = []

        def record(called, inputs, output):
            if called is module:
                shapes.append(tuple(inputs[0].shape))

        handles.append(register_module_forward_hook(record))
        return shapes

    yield start
    for handle in handles:
        handle.remove()


def test_source_is_projected_once_per_sentence_not_per_beam(record_input_shapes):
    model = tiny_model()
    shapes = record_input_shapes(model.model.decoder.layers[0].encoder_attn.k_proj)
    model.generate(torch.tensor([[5, 9, 12, 2], [6, 8, 7, 2]]), num_beams=4, max_new_tokens=6)
    assert shapes == [(2, 4, model.config.d_model)]


def test_finished_sentences_leave_the_batch(vaswani, sources, record_input_shapes):
    shapes = record_input_shapes(vaswani.model.decoder.layers[0].fc1)
    vaswani.generate(**sources, num_beams=2, max_length_offset=3, max_length=40, eos_token_id=None)
    sentences = [shape[0] for shape in shapes]
    # The sentences of 2, 5, 8 and 20 tokens, 50 of each, leave at 5, 8, 11 and 23.
    assert sentences == [200] * 5 + [150] * 3 + [100] * 3 + [50] * 12


@pytest.mark.parametrize("num_beams", [1, 3])
def test_search_stops_with_its_last_sentences_unfinished(vaswani, sources, num_beams):
    options = {**sources, "num_beams": num_beams, "max_length_offset": 3, "max_length": 40, "eos_token_id": None}
    expected = vaswani.generate(**options)
    unfinished = UnfinishedSentences(rows=50 * num_beams)
    output = vaswani.generate(**options, stopping_criteria=[unfinished])
    # The last 50 are the sentences of 20 tokens.
    assert sorted(unfinished.numbers) == list(range(3, 200, 4))
    done = [row for row in range(200) if row % 4 != 3]
    assert torch.equal(output[done], expected[done, : output.shape[1]])


def test_search_that_never_reaches_the_straggler_limit_finishes(vaswani, sources):
    options = {**sources, "num_beams": 2, "max_length_offset": 3, "max_length": 40, "eos_token_id": None}
    unfinished = UnfinishedSentences(rows=99)
    output = vaswani.generate(**options, stopping_criteria=[unfinished])
    assert not unfinished.numbers and torch.equal(output, vaswani.generate(**options))


def test_sampling_ignores_the_straggler_criterion(vaswani, sources):
    torch.manual_seed(0)
    expected = vaswani.generate(**sources, do_sample=True, max_new_tokens=5)
    torch.manual_seed(0)
    output = vaswani.generate(
        **sources, do_sample=True, max_new_tokens=5, stopping_criteria=[UnfinishedSentences(rows=200)]
    )
    assert torch.equal(output, expected)


def test_finished_sentences_stay_in_the_batch_for_custom_logits_processors(vaswani, sources):
    rows = []

    def processor(input_ids, scores):
        rows.append(len(input_ids))
        return scores

    vaswani.generate(**sources, num_beams=2, max_length=12, logits_processor=[processor])
    assert set(rows) == {400}


def test_greedy_search_matches_transformers(vaswani, sources, monkeypatch):
    ours = vaswani.generate(**sources, max_length_offset=6, min_new_tokens=3)
    monkeypatch.setattr(type(vaswani), "_sample", GenerationMixin._sample)
    assert torch.equal(ours, vaswani.generate(**sources, max_length_offset=6, min_new_tokens=3))


class FixedLogits:
    """A decoder that returns fixed logits `(steps, vocab_size)`, one step at a time."""

    sentences_may_leave = False

    def __init__(self, logits):
        self.steps = iter(logits)

    def first(self):
        return next(self.steps).view(1, 1, -1)

    def next(self, sequences, parents):
        return self.first()

    def logits(self, states):
        return states


def test_greedy_search_takes_the_best_token_however_small_its_lead():
    torch.manual_seed(0)
    logits = torch.randn(300, 1000) / 1000
    best = logits.argmax(-1)
    # The lead is 4e-6. The sum of 300 log-probabilities of -6.9 each is rounded to multiples of 1e-4.
    logits[torch.arange(300), best] = logits.topk(2).values[:, 1] + 4e-6
    search = GreedySearch(FixedLogits(logits), prompt=torch.tensor([[1]]), limits=torch.tensor([301]))
    assert search.run().sequences.tolist() == [[1, *best.tolist()]]


def test_top_sums_are_found_for_any_vocabulary_size():
    for vocab_size in (5, 512, 600, 1000):
        log_probs, scores = torch.randn(3, 4, vocab_size), torch.randn(3, 4)
        sums, indices = top(log_probs, scores, 8)
        expected = (log_probs + scores.unsqueeze(-1)).flatten(1).sort(dim=1, descending=True)
        assert torch.equal(sums, expected.values[:, :8])
        assert torch.equal(indices, expected.indices[:, :8])


@pytest.mark.parametrize("vocab_size", [5, 512, 600, 1000])
def test_index_is_drawn_in_proportion_to_its_weight(vocab_size):
    weights = torch.arange(vocab_size) % 3
    weights[-2:] = 0
    tickets = torch.arange(vocab_size).repeat_interleave(weights)
    uniform = (torch.arange(len(tickets), dtype=torch.float64) + 0.5) / len(tickets)
    drawn = draw(weights.float().expand(len(tickets), -1), uniform.unsqueeze(1))
    assert torch.equal(drawn.squeeze(1), tickets)
    extremes = torch.tensor([[0.0], [1 - 2**-53]], dtype=torch.float64)
    assert draw(weights.float().expand(2, -1), extremes).flatten().tolist() == [tickets[0], tickets[-1]]


@pytest.mark.parametrize("kind", [BeamSearch, FastBeamSearch])
def test_step_reads_no_value_from_a_gpu(kind):
    # The meta device has no values: reading one is an error, where a GPU would have to finish all its work first.
    decoder = SimpleNamespace(logits=lambda states: states, sentences_may_leave=True)
    with torch.device("meta"):
        prompt, limits, ends = torch.zeros(3, 1, dtype=torch.long), torch.full((3,), 9), torch.tensor([EOS])
        search = kind(decoder, scoring=Scoring(), prompt=prompt, limits=limits, beams=2, eos_token_ids=ends)
        state = search._start()
        for _ in range(2):
            assert search._step(state, torch.zeros(3, 2, 900)).is_meta


def test_kept_rows_move_only_into_gaps():
    is_kept = torch.tensor([True, False, True, False, False, True, True])
    assert close_ranks(is_kept, 4).tolist() == [0, 5, 2, 6]
