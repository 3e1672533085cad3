"""Beam trees: they match the search of `generate()`, and figures and pages show them completely."""

import math
from html.parser import HTMLParser
from xml.dom import minidom

import pytest
import torch
from transformers import LogitsProcessor, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.beam_tree import beam_tree
from hf_vaswani.evaluation.beam_tree_figure import beam_tree_page, beam_tree_svg
from hf_vaswani.generation.fast_beam_search import SearchObserver

from ..conftest import slow_but, tiny_model, word_tokenizer

TEXT = "w1 w2 w3 w4"
VOCABULARY, START, END = 40, 1, 2


def random_model(seed: int):
    """A model with random weights, spread enough for outputs of varying length."""
    model = tiny_model()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.4)
        model.lm_head.weight[END] *= 1.6
    return model


def next_log_probabilities(model, tokenizer, output_ids):
    """Log-probabilities of the next token, in float64, from a forward pass over the entire hypothesis."""
    inputs = tokenizer([TEXT], return_tensors="pt")
    with torch.no_grad():
        logits = model(**inputs, decoder_input_ids=torch.tensor([output_ids])).logits
    return logits[0, -1].double().log_softmax(-1)


@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("length_penalty_type", ["length", "gnmt"])
@pytest.mark.parametrize("num_beams", slow_but([1, 2, 3, 4, 5], 1, 4))
def test_best_path_is_the_output_of_generate(tokenizer, num_beams, length_penalty_type, early_stopping):
    settings = {"num_beams": num_beams, "max_new_tokens": 9}
    if num_beams > 1:
        settings |= {
            "length_penalty": 0.6,
            "length_penalty_type": length_penalty_type,
            "early_stopping": early_stopping,
            "num_return_sequences": num_beams - 1,
        }
    for seed in range(4):
        model = random_model(seed)
        tree = beam_tree(model, tokenizer, TEXT, **settings)
        inputs = tokenizer([TEXT], return_tensors="pt")
        output = model.generate(**inputs, **settings, return_dict_in_generate=True)
        pad = model.config.pad_token_id
        for candidate, row in zip(tree.ranking, output.sequences.tolist()):
            ids = tree.output_ids(candidate)
            assert [*ids, *[pad] * (len(row) - len(ids))] == row
        assert tree.translation == tokenizer.decode(tree.output_ids(tree.best), skip_special_tokens=True)
        if num_beams > 1:
            scores = [candidate.penalized_score for candidate in tree.ranking[: len(output.sequences)]]
            assert scores == pytest.approx(output.sequences_scores.tolist(), rel=1e-5)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_candidates_are_the_best_continuations_of_the_kept_hypotheses(tokenizer, num_beams):
    model = random_model(1)
    tree = beam_tree(model, tokenizer, TEXT, num_beams=num_beams, max_new_tokens=6)
    running = [None]
    assert len(tree.steps) > 2
    for step in tree.steps:
        expected = []
        for number in running:
            parent = None if number is None else tree.candidates[number]
            ids = tree.prompt_ids if parent is None else tree.output_ids(parent)
            logs = next_log_probabilities(model, tokenizer, ids)
            expected += [
                (value + (parent.score if parent else 0), number, token) for token, value in enumerate(logs.tolist())
            ]
        expected = sorted(expected, reverse=True)[: 2 * num_beams]
        candidates = [tree.candidates[number] for number in step.candidates]
        assert [(c.parent, c.token_id) for c in candidates] == [(parent, token) for _, parent, token in expected]
        assert [c.score for c in candidates] == pytest.approx([score for score, _, _ in expected], abs=1e-4)
        # The best unfinished candidates are kept; a finished one counts only if it is among the best.
        is_end = [c.token_id == END or step.number == 6 for c in candidates]
        assert [c.is_end for c in candidates] == is_end
        running = [c.number for c, ends in zip(candidates, is_end) if not ends][:num_beams]
        assert [c.number for c in candidates if c.fate == "kept"] == running
        finished = [c.number for c, ends in zip(candidates[:num_beams], is_end) if ends]
        assert [c.number for c in candidates if c.fate == "finished"] == finished
        assert all(c.fate == "pruned" for c in candidates if c.number not in running + finished)


def test_finished_hypotheses_are_ranked_by_their_penalized_scores(tokenizer):
    settings = {"num_beams": 4, "max_new_tokens": 9, "length_penalty": 0.6, "num_return_sequences": 4}
    tree = beam_tree(random_model(2), tokenizer, TEXT, **settings, length_penalty_type="gnmt")
    finished = [candidate for candidate in tree.candidates if candidate.fate == "finished"]
    for candidate in finished:
        path = tree.path(candidate)
        assert candidate.score == pytest.approx(sum(part.log_probability for part in path), abs=1e-4)
        assert candidate.penalized_score == pytest.approx(candidate.score / ((5 + len(path)) / 6) ** 0.6, abs=1e-4)
    best = sorted(finished, key=lambda candidate: -candidate.penalized_score)[:4]
    assert list(tree.ranking) == best and [candidate.rank for candidate in best] == [1, 2, 3, 4]
    assert {c.rank for c in tree.candidates if c not in best} == {None}


MANY_ENDS = list(range(2, 20))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"early_stopping": True, "length_penalty": 5.0, "eos_token_id": MANY_ENDS}, "needs no more"),
        ({"num_return_sequences": 2, "length_penalty": 2.0, "eos_token_id": MANY_ENDS}, "not score better"),
        ({"early_stopping": "never", "length_penalty": 0.0, "eos_token_id": MANY_ENDS}, "could still score better"),
        ({"max_new_tokens": 1}, "all candidates ended"),
        ({"num_beams": 1}, "greedy search"),
    ],
)
def test_stop_reason_is_reported(tokenizer, settings, reason):
    tree = beam_tree(random_model(1), tokenizer, TEXT, **{"num_beams": 2, "max_new_tokens": 30, **settings})
    assert reason in tree.stop_reason


def test_forced_token_leaves_no_impossible_candidates(tokenizer):
    settings = {"num_beams": 4, "forced_bos_token_id": 7, "max_new_tokens": 6}
    model = random_model(0)
    tree = beam_tree(model, tokenizer, TEXT, **settings)
    assert [tree.candidates[number].token_id for number in tree.steps[0].candidates] == [7]
    assert all(math.isfinite(c.score) and c.score > -1e6 for c in tree.candidates)
    assert (
        list(tree.output_ids(tree.best))
        == model.generate(**tokenizer([TEXT], return_tensors="pt"), **settings)[0].tolist()
    )


def test_observing_the_search_does_not_change_it(tokenizer):
    model, inputs = random_model(3), tokenizer([TEXT, "w3", "w5 w6"], return_tensors="pt", padding=True)
    settings = {"num_beams": 3, "max_new_tokens": 8}
    alone = model.generate(**inputs, **settings)
    observer = SearchObserver()
    assert torch.equal(model.generate(**inputs, **settings, stopping_criteria=[observer]), alone)
    assert len(observer.steps) == alone.shape[1] - 1
    # Finished sentences are removed from the batch, so this holds only for the first step.
    assert observer.steps[0].numbers.tolist() == [0, 1, 2]


def test_text_model_or_settings_without_a_tree_are_rejected(tokenizer):
    model = random_model(0)
    with pytest.raises(InputError, match="text is empty"):
        beam_tree(model, tokenizer, " ")
    with pytest.raises(InputError, match="do_sample=False"):
        beam_tree(model, tokenizer, TEXT, do_sample=True)
    marian = MarianMTModel(MarianConfig(vocab_size=40, d_model=8, encoder_layers=1, decoder_layers=1,
                                        encoder_attention_heads=1, decoder_attention_heads=1, pad_token_id=0,
                                        decoder_start_token_id=0))  # fmt: skip
    with pytest.raises(InputError, match="MarianMTModel cannot be recorded"):
        beam_tree(marian, tokenizer, TEXT)

    class Unknown(LogitsProcessor):
        def __call__(self, input_ids, scores):
            return scores

    with pytest.raises(InputError, match="nothing was recorded"):
        beam_tree(model, tokenizer, TEXT, num_beams=1, logits_processor=[Unknown()])


def test_text_longer_than_the_learned_positions_is_rejected(tokenizer):
    model = tiny_model(position_type="learned", max_position_embeddings=4)
    with pytest.raises(InputError, match="5 tokens, but the model has 4 positions"):
        beam_tree(model, tokenizer, TEXT)


# Figures and pages.

NASTY = ["<b>&", '"quoted"', "العربية", "日本語", "]]>", "a_token_of_very_many_letters", "\u200dx", "▁dog"]


@pytest.fixture
def tree():
    words = [*NASTY, *(f"w{i}" for i in range(36 - len(NASTY)))]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(words), model_input_names=["input_ids", "attention_mask"], **SPECIAL_TOKENS
    )
    model = random_model(5)
    with torch.no_grad():
        model.lm_head.weight[12:] *= 0.2
    settings = {"num_beams": 4, "max_new_tokens": 7, "num_return_sequences": 4}
    return beam_tree(model, tokenizer, "<script>alert(1)</script> & \x0b日本語", **settings)


def test_figure_is_xml_with_a_box_for_each_candidate(tree):
    document = minidom.parseString(beam_tree_svg(tree))
    titles = [node.firstChild.data for node in document.getElementsByTagName("title")]
    assert len(titles) == len(tree.candidates) == len(document.getElementsByTagName("path"))
    for candidate, title in zip(tree.candidates, titles):
        assert title.startswith(f"step {candidate.step}: {candidate.token}, ")
        assert f"{candidate.score:.4f}".replace("-", "−") in title
    groups = [node.getAttribute("class").split() for node in document.getElementsByTagName("g")][1:]
    assert [group[0] for group in groups] == [candidate.fate for candidate in tree.candidates]
    on_path = [candidate.number for candidate in tree.path(tree.best)]
    assert [number for number, group in enumerate(groups) if "best" in group] == on_path


def test_boxes_of_a_figure_do_not_overlap(tree):
    document = minidom.parseString(beam_tree_svg(tree))
    boxes = [
        [float(node.getAttribute(name)) for name in ("x", "y", "width", "height")]
        for node in document.getElementsByTagName("rect")
        if node.getAttribute("class") == "box"
    ]
    for number, (x, y, width, height) in enumerate(boxes):
        for x2, y2, width2, height2 in boxes[:number]:
            assert x >= x2 + width2 or x2 >= x + width or y >= y2 + height2 or y2 >= y + height


class Page(HTMLParser):
    """Collects the ids, links, and tags of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.links, self.tags, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []
        assert "src" not in values
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_each_box_links_to_its_row(tree):
    page = Page(beam_tree_page(tree))
    assert page.open == [] and len(set(page.ids)) == len(page.ids)
    assert page.links == ["#ranking", *(f"#candidate-{number}" for number in range(len(tree.candidates)))]
    assert {link.removeprefix("#") for link in page.links} == set(page.ids)


def test_page_loads_nothing_and_runs_nothing(tree):
    text = beam_tree_page(tree)
    assert not {"script", "link", "img", "iframe"} & set(Page(text).tags)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in text
    assert text.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert "\x0b" not in text


def test_page_shows_rank_and_score_of_finished_hypotheses(tree):
    text = beam_tree_page(tree)
    for candidate in tree.ranking:
        assert f"finished, rank {candidate.rank}<" in text
        assert f"{candidate.penalized_score:.4f}".replace("-", "−") in text
