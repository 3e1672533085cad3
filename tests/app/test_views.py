"""HTML of the page: what users type and what models output never becomes markup."""

import gc
from html.parser import HTMLParser

import pytest
import torch

from hf_vaswani.app.figures import AttentionView, draw
from hf_vaswani.app.models import LoadedModel
from hf_vaswani.app.translate import Sentence, Translation
from hf_vaswani.app.views import alternatives, linked_text, paragraphs, table
from hf_vaswani.core.sentence_splitting import Piece

from ..conftest import tiny_model
from ..core.test_modeling_vaswani import randomize

NASTY = "<img src=x onerror=alert(1)> & \"'<script>alert(2)</script>"


class Tags(HTMLParser):
    def __init__(self, markup: str):
        super().__init__()
        self.names, self.text = set(), ""
        self.feed(markup)

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)

    def handle_data(self, data):
        self.text += data


def translation(source: str, target: str) -> Translation:
    hypothesis = {
        "translation_text": target, "score": -0.5, "alignment": [(0, 0)], "source_tokens": [source],
        "target_tokens": [target],
    }  # fmt: skip
    return Translation((Sentence(Piece(source), (hypothesis,)),), 1, has_links=True)


def test_text_stays_text_everywhere(tokenizer):
    done = translation(NASTY, NASTY)
    for markup in (
        linked_text(tokenizer, done),
        alternatives(done.sentences),
        table(NASTY, [NASTY], [[NASTY]]),
        paragraphs(NASTY),
    ):
        tags = Tags(markup)
        assert not tags.names & {"img", "script"}
        assert NASTY in tags.text


def test_every_text_sets_its_own_direction(tokenizer):
    markup = linked_text(tokenizer, translation("مرحبا", "hello"))
    assert '<p dir="auto" class="source">' in markup and '<p dir="auto" class="target">' in markup
    assert '<td dir="auto">hello</td>' in alternatives(translation("مرحبا", "hello").sentences)


def test_words_carry_the_indices_of_their_aligned_words(tokenizer):
    hypothesis = {"translation_text": "b a", "alignment": [(0, 1), (1, 0)], "source_tokens": ["A", "B"],
                  "target_tokens": ["b", "a"]}  # fmt: skip
    markup = linked_text(tokenizer, Translation((Sentence(Piece("A B"), (hypothesis,)),), 1, True))
    assert markup.count('data-to="1">A<') == markup.count('data-to="0">B<') == 1
    assert markup.count('data-to="1">b<') == markup.count('data-to="0">a<') == 1


def test_table_shows_200_rows_and_says_how_many_more_there_are():
    markup = table("Rows", ["n"], [[n] for n in range(1203)], numbers=1)
    assert markup.count("<td") == 200 and "Not shown: 1,003 more rows." in markup


@pytest.mark.slow
def test_attention_is_that_of_the_chosen_model_even_after_others_were_unloaded(loaded):
    view = AttentionView()
    for number in range(30):
        # Each may be at the address of the one before, which is gone by now.
        other = LoadedModel(f"model {number}", tiny_model(), loaded.tokenizer)
        randomize(other.model, seed=number)
        weights = view.attention(other, "w1 w2", "w3").weights.cross
        assert torch.equal(weights, AttentionView().attention(other, "w1 w2", "w3").weights.cross)
        del other
        gc.collect()


def test_heat_map_has_alt_text_and_switching_heads_needs_no_forward_pass(loaded, monkeypatch):
    view = AttentionView()
    attention = view.attention(loaded, "w1 w2", "w3")
    markup = draw(attention, "cross", "1", "2")
    assert "data:image/png;base64," in markup
    weights = attention.weights.cross[0, 1, 2]
    assert weights.shape == (2, 3)  # target and source tokens, each with </s>
    source = ["w1", "w2", "</s>"]
    expected = [f"{token} at {source[row.argmax()]}" for token, row in zip(["w3", "</s>"], weights)]
    text = f'alt="Cross-attention. Most attention: {", ".join(expected)}."'
    assert text.replace("</s>", "&lt;/s&gt;") in markup
    monkeypatch.setattr(type(loaded.model), "forward", None)
    assert view.attention(loaded, "w1 w2", "w3") is attention
    assert draw(attention, "cross", "0", "mean") != markup
