"""What is damaged becomes what it was, and what is not damaged stays."""

import pytest

from hf_vaswani.cleaning.repairs import REPAIRS, repaired

pytest.importorskip("ftfy")


@pytest.mark.parametrize(
    ("text", "expected", "names"),
    [
        ("MÃ¤rz und grÃ¼n", "März und grün", ["encoding"]),
        ("РџСЂРёРІРµС‚ РјРёСЂ", "Привет мир", ["encoding"]),
        ("It\x92s \x93so\x94 \x96 5 \x80", "It’s “so” – 5 €", ["encoding"]),
        ("MANHÃ…", "MANHÃ…", []),
        ("Tom &amp; Jerry &#233;t&eacute;", "Tom & Jerry été", ["entities"]),
        ("&amp;quot;so&amp;quot;", '"so"', ["entities"]),
        ("?a=1&copy=2&amp;reg=3 &notit; &parameter;", "?a=1&copy=2&reg=3 &notit; &parameter;", ["entities"]),
        ("a <b>bold</b> word<br/>here", "a bold word here", ["tags"]),
        ("<b>Id</b>: H<sub>2</sub>O, <a href='x'>so</a>.", "Id: H2O, so.", ["tags"]),
        ("one<p>two</p><IMG src=x>three", "one two three", ["tags", "invisible"]),
        ("if a <b and c> d", "if a <b and c> d", []),
        ("a\u200bb  c\u00a0d\x07", "ab c d", ["invisible"]),
        ("e\u0301te\u0301", "\u00e9t\u00e9", ["unicode"]),
        ("", "", []),
        ("1 < 2 and 3 > 2; AT&T; <name>; \u0e01\u0e33", "1 < 2 and 3 > 2; AT&T; <name>; \u0e01\u0e33", []),
        ("Österreich, naïve, „so“ – 5 €", "Österreich, naïve, „so“ – 5 €", []),
    ],
)
def test_text_after_repairs(text, expected, names):
    assert repaired(text) == (expected, names)


def test_only_the_repairs_that_are_named_are_made():
    assert repaired("a <b>b</b> &amp; c", ["entities"]) == ("a <b>b</b> & c", ["entities"])
    assert list(REPAIRS) == ["encoding", "entities", "tags", "invisible", "unicode"]
