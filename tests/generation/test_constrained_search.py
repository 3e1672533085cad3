"""Beam search with terms: the best hypothesis that has them, by comparison with all hypotheses there are."""

from functools import partial
from itertools import product

import pytest
import torch

from hf_vaswani.generation.constrained_search import search_with_terms
from hf_vaswani.generation.term_automaton import TermAutomata, TermAutomaton
from hf_vaswani.generation.term_spelling import JOINING, LETTER, OTHER, TokenKinds
from hf_vaswani.text.glossary import Term, TermConstraint

from ..conftest import tiny_model

EOS, LENGTH, SUPPRESSED = 2, 5, [0]
TEXTS = ["", " b", "", "s", " c", "."]
KINDS = TokenKinds(
    torch.tensor([OTHER, LETTER, OTHER, JOINING, LETTER, OTHER]),
    torch.tensor([OTHER, LETTER, OTHER, LETTER, LETTER, OTHER]),
    torch.tensor([True, False, True, False, False, False]),
)
SPELLINGS = {"b": [(1,)], "c": [(4,)], "s": [(3,)], "bs": [(1, 3)], "b c": [(1, 4)], "c b": [(4, 1)], "c.": [(4, 5)]}


def demand(*terms, count=1):
    return TermConstraint(tuple(Term(term, True) for term in terms), count, "")


def automata(*sentences):
    return TermAutomata(
        [
            [TermAutomaton.of([s for term in d.terms for s in SPELLINGS[term.text]], d.count, KINDS) for d in demands]
            for demands in sentences
        ],
        KINDS,
    )


def text_of(ids):
    return "".join(TEXTS[token] for token in ids).strip()


def search(model, sources, demands, **options):
    options = {"num_beams": 300, "max_new_tokens": LENGTH, "suppress_tokens": SUPPRESSED, **options}
    output = model.generate(
        torch.tensor(sources),
        custom_generate=partial(search_with_terms, automata=automata(*demands)),
        return_dict_in_generate=True,
        **options,
    )
    return [ids[1:].tolist() for ids in output.sequences], output.sequences_scores.tolist()


def all_hypotheses(model, source):
    """All hypotheses of a source, with their log-probabilities divided by their lengths."""
    tokens = [token for token in range(len(TEXTS)) if token not in (*SUPPRESSED, EOS)]
    whole = torch.tensor(list(product(tokens, repeat=LENGTH)))
    start = torch.full((len(whole), 1), model.config.decoder_start_token_id)
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([source]).expand(len(whole), -1), decoder_input_ids=torch.cat([start, whole], 1)
        ).logits
    log_probs = logits.log_softmax(-1)
    sums = log_probs[:, :LENGTH].gather(2, whole.unsqueeze(2)).squeeze(2).cumsum(1)
    found = {}
    for row, ids in enumerate(whole.tolist()):
        found[tuple(ids)] = sums[row, -1].item() / LENGTH
        for length in range(LENGTH):
            before = sums[row, length - 1].item() if length else 0.0
            found[(*ids[:length], EOS)] = (before + log_probs[row, length, EOS].item()) / (length + 1)
    return found


@pytest.mark.parametrize(
    "spellings, count",
    [([(1,) * 1000], 1), ([(1,) * length for length in range(1, 100)], 1), ([(1, 4) * 100], 20),
     ([tuple(1 if place else 4 for place in range(length)) for length in range(1, 100)], 2)],
)  # fmt: skip
def test_automaton_grows_with_its_spellings_and_not_with_their_square(spellings, count):
    automaton = TermAutomaton.of(spellings, count, KINDS)
    tokens = count * sum(map(len, spellings))
    assert len(automaton.missing) <= tokens + 10 * count
    assert sum(map(len, automaton.moves + automaton.starts + automaton.advances)) <= 4 * tokens + 100 * count


@pytest.fixture(scope="module")
def model():
    return tiny_model(vocab_size=len(TEXTS))


DEMANDS = [
    [demand("b")],
    [demand("s")],
    [demand("b", count=2)],
    [demand("b c"), demand("c b")],
    [demand("bs", "c."), demand("c")],
    [demand("b"), demand("bs"), demand("s", "c.")],
]


def test_the_best_of_all_hypotheses_that_have_the_terms(model):
    sources = [[3 + number % 3, 4, 5, 3, 2] for number in range(len(DEMANDS))]
    outputs, scores = search(model, sources, DEMANDS)
    for source, demands, ids, score in zip(sources, DEMANDS, outputs, scores):
        obeying = {
            ids: score
            for ids, score in all_hypotheses(model, source).items()
            if all(each.count_in(text_of(ids)) == each.count for each in demands)
        }
        best = max(obeying, key=obeying.get)
        assert text_of(ids) == text_of(best)
        assert score == pytest.approx(obeying[best], abs=1e-5)


def test_n_best_are_the_best_that_have_the_terms(model):
    source, demands = [5, 4, 3, 2], [demand("b c")]
    _, scores = search(model, [source], [demands], num_return_sequences=4)
    hypotheses = all_hypotheses(model, source)
    obeying = sorted((score for ids, score in hypotheses.items() if demands[0].count_in(text_of(ids))), reverse=True)
    assert scores == pytest.approx(obeying[:4], abs=1e-5)


def test_a_narrow_beam_finds_all_terms(model):
    demands = [demand("b c"), demand("bs"), demand("c.")]
    [ids], _ = search(model, [[3, 4, 2]], [demands], num_beams=2, max_new_tokens=12)
    assert all(each.count_in(text_of(ids)) for each in demands)


def test_terms_stand_where_they_are_probable_even_if_the_beam_is_narrow(model):
    tokens = [1, 3, 4, 5]  # each of which is a term or part of one

    def later(input_ids, log_probs):
        early = torch.full_like(log_probs, -50.0)
        early[:, 5] = 0.0
        return early if input_ids.shape[1] < 4 else log_probs

    demands = [demand("b"), demand("c b"), demand("s")]
    options = {"num_beams": 2, "max_new_tokens": 12, "logits_processor": [later]}
    [ids], _ = search(model, [[3, 4, 2]], [demands], **options)
    assert ids[:3] == [5, 5, 5] and set(tokens) <= set(ids)


def test_terms_beyond_the_length_limit_are_left_out_but_no_others(model):
    demands = [demand("b"), demand("c."), demand("s")]
    [ids], _ = search(model, [[3, 4, 2]], [demands], max_new_tokens=3, num_beams=100)
    assert sorted(each.count_in(text_of(ids)) for each in demands) == [0, 1, 1]


def test_a_translation_does_not_depend_on_its_batch():
    model = tiny_model(vocab_size=len(TEXTS))
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(3, 6, (6,), generator=generator).tolist() for _ in range(24)]
    demands = [DEMANDS[number % len(DEMANDS)] for number in range(len(rows))]
    together = search(model, rows, demands, num_beams=4, max_new_tokens=9)
    alone = [search(model, [row], [each], num_beams=4, max_new_tokens=9) for row, each in zip(rows, demands)]
    assert [text_of(ids) for ids in together[0]] == [text_of(ids) for [ids], _ in alone]
    assert together[1] == pytest.approx([score for _, [score] in alone], abs=1e-5)


def test_terms_in_the_prompt_count(model):
    source, prompt = [[3, 4, 2]], torch.tensor([[model.config.decoder_start_token_id, 4, 5]])
    options = {"decoder_input_ids": prompt, "num_beams": 100, "max_new_tokens": 3}
    with_terms, without = (search(model, source, demands, **options) for demands in ([[demand("c.")]], [[]]))
    assert with_terms == without


def test_without_terms_it_is_the_usual_beam_search(model):
    options = {"num_beams": 100, "max_new_tokens": LENGTH, "suppress_tokens": SUPPRESSED, "early_stopping": "never"}
    usual = model.generate(torch.tensor([[3, 4, 2]]), return_dict_in_generate=True, **options)
    assert search(model, [[3, 4, 2]], [[]], **options)[1] == pytest.approx(usual.sequences_scores.tolist())
