"""Heat maps of attention: what is drawn where, and that tokens of any length and script stay legible."""

import itertools
import logging
import sys
import warnings

import numpy as np
import pytest
import torch
from matplotlib import font_manager, ft2font
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation import token_text
from hf_vaswani.evaluation.attention import attention_figure, draw_attention, draw_sentence, sentence_attention
from hf_vaswani.evaluation.token_text import drawable, font_families, is_right_to_left, save_figure
from hf_vaswani.generation.alignment import forced_attentions
from hf_vaswani.text.token_spans import readable_tokens

from ..conftest import slow_but, tiny_model
from ..families import family

SOURCE, TARGET = "w1 w2 w3 w4", "w7 w5 w6"
SOURCE_IDS, OUTPUT_IDS = [[5, 6, 7, 8, 2]], [[1, 11, 9, 10, 2]]


@pytest.fixture
def model():
    return tiny_model(decoder_layers=3)


@pytest.fixture
def attention(model, tokenizer):
    return sentence_attention(model, tokenizer, SOURCE, TARGET)


@pytest.fixture
def weights(model):
    """The expected weights: 2 layers with 2 heads in the encoder, 3 with 4 in decoder and cross-attention."""
    return forced_attentions(model, {"input_ids": torch.tensor(SOURCE_IDS)}, torch.tensor(OUTPUT_IDS))


def panels(figure):
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images]


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.images]


def texts(figure):
    """The title, the label of the rows, and the label of the columns."""
    return [text.get_text() for text in figure.texts]


def ticks(labels):
    return [label.get_text() for label in labels]


def words(count):
    return [f"▁word{number}" for number in range(count)]


def uniform(*shape):
    return np.full(shape, 1 / shape[-1])


# What is drawn where.


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "labels"),
    [
        ("encoder", "w1 w2 w3 w4 </s>", "w1 w2 w3 w4 </s>", ["source tokens", "source tokens"]),
        ("decoder", "w7 w5 w6 </s>", "<s> w7 w5 w6", ["target tokens, being predicted", "target tokens read so far"]),
        ("cross", "w7 w5 w6 </s>", "w1 w2 w3 w4 </s>", ["target tokens, being predicted", "source tokens"]),
    ],
)
def test_axes_show_the_tokens_of_rows_and_columns(attention, weights, kind, rows, columns, labels):
    figure = attention_figure(attention, kind, layer=1, head=0)
    axes = figure.axes[0]
    assert (ticks(axes.get_yticklabels()), ticks(axes.get_xticklabels())) == (rows.split(), columns.split())
    assert texts(figure)[1:] == labels
    np.testing.assert_allclose(panels(figure)[0], getattr(weights, kind)[0, 1, 0])
    assert axes.yaxis_inverted() and not axes.xaxis_inverted()  # starting at the top left
    assert figure.axes[-1].get_ylabel() == "attention weight"


@pytest.mark.parametrize(
    ("layer", "head", "title", "expected"),
    [
        (None, None, "mean of 3 layers, mean of 4 heads", lambda cross: cross.mean(dim=(0, 1))),
        (1, None, "layer 1 of 0–2, mean of 4 heads", lambda cross: cross[1].mean(dim=0)),
        (None, 3, "mean of 3 layers, head 3 of 0–3", lambda cross: cross[:, 3].mean(dim=0)),
        (-1, -4, "layer 2 of 0–2, head 0 of 0–3", lambda cross: cross[2, 0]),
    ],
)
def test_one_layer_or_head_or_their_mean_is_one_panel(attention, weights, layer, head, title, expected):
    figure = attention_figure(attention, "cross", layer, head)
    (panel,) = panels(figure)
    np.testing.assert_allclose(panel, expected(weights.cross[0]), atol=1e-7)
    assert texts(figure)[0] == f"Cross-attention, {title}"


@pytest.mark.parametrize(
    ("layer", "head", "names", "expected"),
    [
        (2, "all", [f"head {h}" for h in range(4)], lambda cross: cross[2]),
        ("all", None, [f"layer {n}" for n in range(3)], lambda cross: cross.mean(dim=1)),
        (
            "all",
            "all",
            [f"layer {n}, head {h}" for n in range(3) for h in range(4)],
            lambda cross: cross.flatten(0, 1),
        ),
    ],
)
def test_all_layers_or_heads_get_a_panel_each_on_a_shared_color_scale(
    attention, weights, layer, head, names, expected
):
    figure = attention_figure(attention, "cross", layer, head)
    assert titles(figure) == names
    expected = expected(weights.cross[0])
    np.testing.assert_allclose(np.stack(panels(figure)), expected, atol=1e-7)
    limits = np.array([axes.images[0].get_clim() for axes in figure.axes[:-1]])
    np.testing.assert_allclose(limits, [[0, expected.max()]] * len(names))


def test_grid_has_layers_as_rows_and_heads_as_columns(attention):
    figure = attention_figure(attention, "cross", "all", "all")
    corners = [axes.get_position().min for axes in figure.axes[:-1]]
    assert len({round(x, 4) for x, _ in corners}) == 4 and len({round(y, 4) for _, y in corners}) == 3
    assert corners[4][0] == pytest.approx(corners[0][0]) and corners[4][1] < corners[0][1]


def test_models_own_translation_is_the_target_by_default(model, tokenizer):
    attention = sentence_attention(model, tokenizer, SOURCE, num_beams=2, max_new_tokens=6)
    inputs = tokenizer([SOURCE], return_tensors="pt")
    output = model.generate(**inputs, num_beams=2, max_new_tokens=6)
    assert attention.target_tokens == tokenizer.convert_ids_to_tokens(output[0])
    assert attention.translation == tokenizer.decode(output[0], skip_special_tokens=True)
    torch.testing.assert_close(attention.weights, forced_attentions(model, inputs, output))


def test_alignment_excludes_special_tokens(attention, weights):
    assert (attention.source_words, attention.target_words) == (SOURCE.split(), TARGET.split())
    best = weights.cross[0, 2, :, :3, :4].mean(dim=0).argmax(dim=-1).tolist()
    assert attention.alignment == [(source, target) for target, source in enumerate(best)]


def test_sentence_is_drawn_in_one_call(model, tokenizer, weights):
    figure = draw_sentence(model, tokenizer, SOURCE, TARGET, kind="encoder", layer=0, head=1)
    np.testing.assert_allclose(panels(figure)[0], weights.encoder[0, 0, 1])


def test_nonexistent_layer_and_head_are_reported_together(attention):
    with pytest.raises(InputError) as error:
        attention_figure(attention, "encoder", layer=2, head=-3)
    assert str(error.value).splitlines() == [
        "There is no layer 2 of encoder self-attention: layers go from 0 to 1, or from -1, the last, to -2.",
        "There is no head -3 of encoder self-attention: heads go from 0 to 1, or from -1, the last, to -2.",
    ]


def test_text_longer_than_the_learned_positions_is_rejected(tokenizer):
    model = tiny_model(position_type="learned", max_position_embeddings=4)
    with pytest.raises(InputError, match="The text has 5 tokens, but the model has 4 positions"):
        sentence_attention(model, tokenizer, SOURCE)


def test_weights_that_do_not_match_the_tokens_are_rejected():
    with pytest.raises(ValueError, match="do not match 2 row tokens and 3 column tokens"):
        draw_attention(uniform(3, 2), ["a", "b"], ["a", "b", "c"])


# Legibility.


def inches(figure, text):
    box = text.get_window_extent()
    return box.x0 / figure.dpi, box.y0 / figure.dpi, box.x1 / figure.dpi, box.y1 / figure.dpi


def drawn(figure):
    """All visible text."""
    parts = list(figure.texts)
    for axes in figure.axes:
        parts += [axes.title, axes.yaxis.label, *axes.get_yticklabels(), *axes.get_xticklabels()]
    return [text for text in parts if text.get_text()]


@pytest.mark.parametrize(
    ("panels", "rows", "columns"),
    slow_but(
        [(1, 1, 1), (8, 1, 1), (1, 3, 30), (1, 120, 110), (5, 6, 9), (6, 40, 50), (24, 8, 9)], (8, 1, 1), (1, 3, 30)
    ),
)
def test_all_text_is_inside_the_figure_and_no_smaller_than_six_points(panels, rows, columns):
    figure = draw_attention(
        uniform(panels, rows, columns), words(rows), words(columns), "Cross-attention, mean of 6 layers",
        "target tokens, being predicted", "source tokens", [f"head {n}" for n in range(panels)],
    )  # fmt: skip
    width, height = figure.get_size_inches()
    figure.draw_without_rendering()
    for text in drawn(figure):
        left, below, right, above = inches(figure, text)
        assert min(left, below) >= 0 and right <= width and above <= height, text
        assert text.get_fontsize() >= 6
    title, rows, columns = (text.get_window_extent() for text in figure.texts)
    assert not (title.overlaps(rows) or rows.overlaps(columns))
    names = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert not any(name.overlaps(other) for name, other in itertools.combinations(names, 2))


@pytest.mark.parametrize("length", [5, 40, 120])
def test_neighboring_tokens_do_not_overlap(length):
    figure = draw_attention(uniform(length, length), words(length), words(length))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = [inches(figure, label) for label in axes.get_yticklabels()]
    letters = axes.get_yticklabels()[0].get_fontsize() / 72
    assert all(upper[1] - lower[1] >= letters for upper, lower in zip(boxes, boxes[1:]))


@pytest.mark.slow
def test_longer_sentences_make_larger_figures_with_square_cells():
    sizes = []
    for length in (20, 60, 120):
        figure = draw_attention(uniform(length, length // 2), words(length), words(length // 2))
        sizes.append(figure.get_size_inches())
        panel = figure.axes[0].get_position().size * sizes[-1]
        assert panel[1] == pytest.approx(2 * panel[0], rel=0.03)  # up to what the eye notices
    assert sizes[0][1] < sizes[1][1] < sizes[2][1]


@pytest.mark.slow
def test_figure_with_very_many_tokens_has_a_bounded_size_and_fewer_labels():
    figure = draw_attention(uniform(1200, 10), words(1200), words(10))
    labels = ticks(figure.axes[0].get_yticklabels())
    assert figure.get_size_inches().max() < 62
    assert labels == words(1200)[:: 1200 // len(labels)] and len(labels) == 600


@pytest.mark.slow
def test_grid_is_roughly_screen_shaped_with_few_gaps():
    def rows_and_columns(panels, rows, columns):
        figure = draw_attention(uniform(panels, rows, columns), words(rows), words(columns))
        corners = [axes.get_position().min.round(4) for axes in figure.axes[:-1]]
        return len({y for _, y in corners}), len({x for x, _ in corners})

    assert rows_and_columns(8, 10, 10) == (2, 4)
    assert rows_and_columns(3, 10, 12) == (1, 3)
    assert rows_and_columns(4, 10, 50) == (4, 1)


def test_only_outermost_panels_have_tick_labels_including_those_above_a_gap():
    figure = draw_attention(uniform(5, 2, 2), ["a", "b"], ["c", "d"], panels_per_row=3)
    *panels, _ = figure.axes
    assert [ticks(axes.get_yticklabels()) for axes in panels] == [["a", "b"], [], [], ["a", "b"], []]
    assert [ticks(axes.get_xticklabels()) for axes in panels] == [[], [], ["c", "d"], ["c", "d"], ["c", "d"]]
    corners = [axes.get_position() for axes in panels]
    assert len({round(corner.width, 4) for corner in corners}) == len({round(c.height, 4) for c in corners}) == 1
    assert len({round(corner.y0, 4) for corner in corners}) == 2


def test_title_and_labels_fit_and_are_centered_even_with_few_tokens():
    figure = draw_attention(
        uniform(1, 2), ["a"], ["b", "c"], "a title that is longer than two tokens", "rows", "columns"
    )
    figure.draw_without_rendering()
    panel = figure.axes[0].get_window_extent()
    title, rows, columns = (text.get_window_extent() for text in figure.texts)
    assert title.width <= panel.width * 1.03
    for text in (title, columns):
        assert (text.x0 + text.x1) / 2 == pytest.approx((panel.x0 + panel.x1) / 2, abs=1)
    assert (rows.y0 + rows.y1) / 2 == pytest.approx((panel.y0 + panel.y1) / 2, abs=1)


def test_long_tokens_are_truncated():
    assert drawable(["Donaudampfschifffahrt", "sixteen letters!"])[0] == ["Donaudampfschif…", "sixteen letters!"]


def test_dollar_signs_are_not_parsed_as_math(tmp_path):
    figure = draw_attention(uniform(2, 2), ["$a$", "$"], [r"\frac{$", "$x_1$"])
    save_figure(figure, tmp_path / "figure.svg")
    assert "$x_1$" in (tmp_path / "figure.svg").read_text()  # in a comment next to the drawn glyphs


def test_bytes_are_decoded_and_invisible_characters_are_escaped():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["</s>", "<unk>"]
    )
    tokenizer.train_from_iterator(["über Köln über Köln über Köln"] * 3, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")
    tokens = fast.convert_ids_to_tokens(fast(" Köln\n€</s>").input_ids)
    assert tokens[0] == "ĠKÃ¶ln"
    assert readable_tokens(fast, tokens) == ["▁Köln", "\\n", "<0xE2>", "<0x82>", "<0xAC>", "</s>"]


def test_subword_tokens_are_shown_as_they_are(tokenizer):
    assert readable_tokens(tokenizer, ["▁Hut", "##ing", "st@@", "\u200b"]) == ["▁Hut", "##ing", "st@@", "\\u200b"]


# Scripts.

ARABIC, HEBREW = ["▁مرحبا", "▁العالم", "</s>"], ["שלום", "עולם", "</s>"]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (ARABIC, True),
        (HEBREW, True),
        (["▁hello", "</s>"], False),
        (["▁hello", "مر", "</s>"], False),
        (["1", "."], False),
    ],
)
def test_right_to_left_text_is_recognized_by_its_script(tokens, expected):
    assert is_right_to_left(tokens) is expected


def test_columns_of_a_right_to_left_language_run_from_right_to_left():
    figure = draw_attention(uniform(3, 3), ["▁hello", "▁world", "</s>"], ARABIC, column_label="source tokens")
    assert figure.axes[0].xaxis_inverted() and texts(figure)[2] == "source tokens, from right to left"
    rows = draw_attention(uniform(3, 3), ARABIC, ["▁hello", "▁world", "</s>"], column_label="source tokens")
    assert not rows.axes[0].xaxis_inverted() and texts(rows)[2] == "source tokens"


def test_matplotlib_with_text_shaping_gets_the_text_unchanged(monkeypatch):
    monkeypatch.setattr(ft2font, "__libraqm_version__", "0.10", raising=False)
    assert drawable(ARABIC)[0] == ARABIC


def test_older_matplotlib_gets_joined_letters_in_visual_order(monkeypatch):
    pytest.importorskip("bidi")
    pytest.importorskip("arabic_reshaper")
    monkeypatch.delattr(ft2font, "__libraqm_version__", raising=False)
    # Of beh and alef, the final form of alef is to the left of the initial form of beh.
    assert drawable(["با", "שלום", "abc"])[0] == ["\ufe8e\ufe91", "םולש", "abc"]


def test_older_matplotlib_without_the_packages_warns_once(monkeypatch, caplog):
    monkeypatch.delattr(ft2font, "__libraqm_version__", raising=False)
    monkeypatch.setitem(sys.modules, "arabic_reshaper", None)  # makes its import fail
    logging.Logger.warning_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert drawable(ARABIC)[0] == ARABIC
        drawable(HEBREW)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "This matplotlib draws right-to-left text from left to right, with separate letters. Install matplotlib "
        "3.11 or later, or"
    ]


@pytest.fixture
def only_default_fonts(monkeypatch):
    """Only the fonts bundled with matplotlib are installed."""
    own = [f for f in font_manager.fontManager.ttflist if "mpl-data" in f.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    monkeypatch.setattr(token_text, "_warned", set())


def test_characters_without_a_font_become_code_points_with_one_warning(only_default_fonts, caplog, tmp_path):
    tokens = ["▁你好", "世界和平安", "abc", "</s>"]
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")  # matplotlib's own warnings, one per glyph
        figure = draw_attention(uniform(4, 4), tokens, tokens)
        save_figure(figure, tmp_path / "figure.png")
    assert ticks(figure.axes[0].get_yticklabels()) == ["▁[4F60 597D]", "[4E16 754C 548C…", "abc", "</s>"]
    assert len(caplog.records) == 1
    assert "No installed font has 7 of the characters (世 你 和 好 安 …)" in caplog.text


def test_characters_without_a_font_become_compatible_ones_where_possible(only_default_fonts, caplog):
    figure = draw_attention(uniform(2, 2), ["￭.", "ＡＢ"], ["￭.", "ＡＢ"])
    assert ticks(figure.axes[0].get_xticklabels()) == ["■.", "AB"]
    assert not caplog.records


def test_fonts_with_the_characters_are_found_among_the_installed_ones(monkeypatch):
    # Musical symbols are in one of matplotlib's own fonts, which is not its default.
    entries = font_manager.fontManager.ttflist
    other = next(entry for entry in entries if entry.name == "STIXGeneral" and entry.style == "normal")
    default = font_manager.findfont(font_manager.FontProperties())
    character = min(token_text._characters(other.fname) - token_text._characters(default))
    monkeypatch.setattr(
        font_manager.fontManager, "ttflist", [e for e in entries if e.name in ("DejaVu Sans", other.name)]
    )
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    assert font_families(f"a{character}") == (["sans-serif", "STIXGeneral"], set())


def test_font_missing_from_matplotlibs_font_list_is_found(monkeypatch, tmp_path):
    entries = font_manager.fontManager.ttflist
    other = next(entry for entry in entries if entry.name == "STIXGeneral" and entry.style == "normal")
    default = font_manager.findfont(font_manager.FontProperties())
    character = min(token_text._characters(other.fname) - token_text._characters(default))
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [e for e in entries if e.name == "DejaVu Sans"])
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [other.fname])
    assert font_families(character) == (["sans-serif", "STIXGeneral"], set())


def test_target_is_aligned_for_models_without_alignment_support(tmp_path):
    model, tokenizer = family("M2M100", tmp_path)
    tokenizer.src_lang, tokenizer.tgt_lang = "de", "en"
    found = sentence_attention(model, tokenizer, "katze", "die katze")
    assert found.translation.endswith("die katze") and len(found.alignment) >= 2


@pytest.mark.parametrize("target", [None, "w1 " * 3000])
def test_text_with_more_tokens_than_a_figure_shows_is_refused(model, tokenizer, target):
    name = "target" if target else "text"
    with pytest.raises(InputError, match=f"The {name} has 3,001 tokens, but at most 2,000 can be shown. Shorten it"):
        sentence_attention(model, tokenizer, "w1" if target else "w1 " * 3000, target)
