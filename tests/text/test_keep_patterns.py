"""What is found in texts to be kept."""

import re

import pytest

from hf_vaswani.text.keep_patterns import KINDS, find_kept, keep_patterns


def found(text: str, keep=tuple(KINDS)) -> list[str]:
    return [text[start:end] for start, end in find_kept(text, keep_patterns(keep))]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("See https://a.de/x_(y)?q=1&r=2#z, or (http://b.org/). Go!", ["https://a.de/x_(y)?q=1&r=2#z", "http://b.org/"]),
        ("At www.example.com.", ["www.example.com"]),
        ("Mail <max.m+x@mail.example.org>, not @max.", ["max.m+x@mail.example.org"]),
        ("5 km, 3.5 kg, 1,000.5 m², 20°C, 7%, $5, 12 €, 100km/h", [
            "5 km", "3.5 kg", "1,000.5 m²", "20°C", "7%", "$5", "12 €", "100km/h",
        ]),
        ("in 2016, 3 dogs, 5 men, A4, v1.2", []),
        ("{name} has {0} of {{ total }} ${x} %{y}", ["{name}", "{0}", "{{ total }}", "${x}", "%{y}"]),
        ("%1$s of %d, %(name)s, %.2f, %@ but 100% sure", ["%1$s", "%d", "%(name)s", "%.2f", "%@", "100%"]),
        ("Run `pip install x` or ``a `b` c``.", ["`pip install x`", "``a `b` c``"]),
        ("Hi 😀👍🏽! ❤️ 👩‍🚀 🇩🇪 1️⃣ ok", ["😀👍🏽", "❤️", "👩‍🚀", "🇩🇪", "1️⃣"]),
        ("`https://a.de` {a@b.de}", ["`https://a.de`", "a@b.de"]),
    ],
)  # fmt: skip
def test_kinds_find_what_they_are_for(text, kept):
    assert found(text) == kept


def test_patterns_may_be_text_or_compiled_and_mixed_with_kinds():
    assert found("AB-12 and a@b.de", [r"[A-Z]+-\d+", re.compile("and"), "email"]) == ["AB-12", "and", "a@b.de"]
    assert found("x12", r"\d+") == ["12"]


def test_first_pattern_wins_where_matches_overlap():
    assert found("abcd", ["bc?", "ab?", "[d]", "cd?"]) == ["bc", "d"]


def test_empty_matches_are_none():
    assert found("abc", "x*") == []


@pytest.mark.parametrize(("keep", "message"), [("(", "neither one of code, url"), (5, "must be"), ([""], "must be")])
def test_wrong_patterns_are_refused(keep, message):
    with pytest.raises(ValueError, match=f"^keep.*{message}"):
        keep_patterns(keep)


@pytest.mark.parametrize("keep", ["urls", "url,email", "url email", "URL", "Numbers", "emojis", "mail", "dates"])
def test_misspelled_kind_is_refused_and_not_taken_for_a_pattern(keep):
    with pytest.raises(ValueError, match=r"^keep: .* is not one of code, url, email, .* separately; .*\\bword\\b"):
        keep_patterns([keep])


def test_misspelled_kind_is_corrected():
    with pytest.raises(ValueError, match="Did you mean url?"):
        keep_patterns("urls")


def test_name_may_be_kept_as_it_is():
    assert found("Kaufland and iPhone 15", ["Kaufland", "iPhone 15", r"\band\b"]) == ["Kaufland", "and", "iPhone 15"]
