"""What nobody sees in a text: what is left of it, and that it changes no translation of models of any kind."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast, pipeline

from hf_vaswani.text.normalization import INVISIBLE, invisible_normalizer, is_blank, normalized
from hf_vaswani.translator.encoder import Encoder

from ..conftest import tiny_model, word_tokenizer
from ..families import FAMILIES, family, languages
from ..invisible import CHANGES, NOTHING_SEEN

# Joiners that shape letters, and emoji of several characters.
INTACT = [
    "می\u200cخواهم", "هـ\u200d", "क\u094d\u200dष और क\u094d\u200cष", "ක\u0dca\u200dර", "สวัสดีครับ", "العَرَبِيَّةُ", "ᠠ\u180b",
    "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "👋🏽", "☺\ufe0e", "1\ufe0f\u20e3", "🏴\U000e0067\U000e0062\U000e007f",
]  # fmt: skip


@pytest.mark.parametrize("text", INTACT)
def test_letters_and_emoji_keep_the_characters_that_shape_them(text):
    assert invisible_normalizer().normalize_str(f"a {text} b") == f"a {text} b"


@pytest.mark.parametrize("name", CHANGES)
def test_only_what_is_seen_is_left(name):
    text = "Ein Hund läuft über die Straße."
    assert invisible_normalizer().normalize_str(CHANGES[name](text)) == text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a\ufe0f\u200d🔥", "a🔥"),
        ("x \u200c y", "x y"),
        ("a\u200c\u200db", "ab"),
        ("می\u200c\u200cخ", "می\u200cخ"),
        ("می\u200b\u200cخ", "می\u200cخ"),
        ("🔥\u200d b", "🔥 b"),
        ("ไท\u200cย", "ไทย"),
        ("葛\U000e0100", "葛"),
        ("a\U000e0067\U000e007fb", "ab"),
        ("a\u0085b\x1fc\x00d", "a b cd"),
        ("\ufeff \u200b\u3000", ""),
        ("\u06dd", "\u06dd"),
    ],
)
def test_characters_without_effect_are_left_out(text, expected):
    normalizer = invisible_normalizer()
    assert normalizer.normalize_str(text) == expected
    assert normalizer.normalize_str(expected) == expected


@pytest.mark.parametrize("options", [{}, {"keeps_start": True}, {"keeps_runs": True}])
def test_text_stays_as_it_is_if_all_characters_are_known(options):
    text = "".join(sorted(INVISIBLE - {" "}))
    assert invisible_normalizer(INVISIBLE, **options).normalize_str(f"a{text}b") == f"a{text}b"


def test_known_characters_stay():
    normalizer = invisible_normalizer(known={"\u00a0", "\u00ad", "\u200c", "\n"})
    assert normalizer.normalize_str("a\u00a0 b\u00adc\u200c\nd\u202fe\u200b") == "a\u00a0 b\u00adc\u200c\nd ef"[:-1]
    assert invisible_normalizer(keeps_runs=True).normalize_str("  a\u00a0  b\u00ad ") == "  a   b "
    assert invisible_normalizer(keeps_start=True).normalize_str("\ufeff\u200b  a ") == " a"


@pytest.mark.parametrize("text", [*NOTHING_SEEN, ""])
def test_text_in_which_nothing_is_seen_is_blank(text):
    assert is_blank(text)
    assert invisible_normalizer().normalize_str(text) == ""


@pytest.mark.parametrize("text", [*INTACT, "a", "\u200b.", "\u0301", "🏴"])
def test_text_in_which_something_is_seen_is_not_blank(text):
    assert not is_blank(text)


@pytest.mark.parametrize("name", FAMILIES)
def test_pipeline_reads_the_same_tokens_after_any_change_that_nobody_sees(name, tmp_path, monkeypatch):
    model, tokenizer = family(name, tmp_path)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, **languages(name))
    changes = dict(CHANGES)
    if name == "Bart":
        del changes["tab"], changes["carriage return"], changes["line feed"]  # its alphabet of bytes has them
    encode, rows = Encoder.rows, []
    monkeypatch.setattr(
        Encoder, "rows", lambda *args, **kwargs: rows.extend(found := encode(*args, **kwargs)) or found
    )
    translator(["ein hund läuft", *(change("ein hund läuft") for change in changes.values())], max_new_tokens=1)
    assert len(rows) == 1 + len(changes)
    assert [row["input_ids"] for row in rows] == [rows[0]["input_ids"]] * len(rows)
    assert translator(list(NOTHING_SEEN)) == [{"translation_text": ""}] * len(NOTHING_SEEN)


def test_prefixes_are_read_without_what_nobody_sees(tokenizer):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    expected = translator(["w1 w2"], prefixes=["w3 w4"], max_new_tokens=5)
    assert translator(["w1 w2"], prefixes=["\ufeffw3\u00a0w4 "], max_new_tokens=5) == expected


def wrapped(backend: Tokenizer, **settings) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", **settings)


def test_characters_that_a_tokenizer_reads_as_spaces_itself_are_left_to_it():
    backend = word_tokenizer(["a", "b", "ab"])
    assert normalized("a\u200bb\u2060", wrapped(backend)) == "ab"
    backend.normalizer = normalizers.Replace("\u200b", " ")
    assert normalized("a\u200bb\u2060", wrapped(backend)) == "a\u200bb"


def test_characters_and_runs_of_spaces_in_a_vocabulary_are_kept():
    assert normalized(" a\u00a0b\u202fc\u00ad ", wrapped(word_tokenizer(["a\u00a0b"]))) == "a\u00a0b c"
    assert normalized("  a\u00a0b ", wrapped(word_tokenizer(["▁▁", "a"]))) == "  a b "


def test_characters_in_byte_level_tokens_are_kept():
    backend = word_tokenizer(["Âł", "a", "Ġ"])  # the bytes C2 A0, an "a", a space
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    assert normalized(" a\u00a0b\u202fc\u00ad", wrapped(backend)) == "a\u00a0b c"


def test_added_tokens_are_noticed():
    tokenizer = wrapped(word_tokenizer(["a"]))
    assert normalized("a\tb", tokenizer) == "a b"
    tokenizer.add_tokens(["\t"])
    assert normalized("a\tb", tokenizer) == "a\tb"


def test_tokenizers_that_say_how_they_treat_whitespace_read_the_text_as_it_is():
    for whitespace in ("normalize", "keep"):
        assert normalized(" a\tb ", wrapped(Tokenizer(models.BPE()), whitespace=whitespace)) == " a\tb "
