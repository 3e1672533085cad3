"""Where tags go: with the words that they enclose, nested as before, each once."""

import random
import re
from collections import Counter
from xml.parsers import expat

import pytest

from hf_vaswani.documents.markup import read_markup

WORDS = ["Hund", "läuft", "schnell", "über", "die", "Straße", "heute", "nicht", "12", "z.B.", "Vaswani", "it's"]
ENTITIES = ["&amp;", "&lt;", "&#228;", "&quot;"]
MARKS = [",", ".", "!", ":", ")"]
TAG = re.compile(r"<[^<>]*>")


def fill(markup, translation, alignment=None):
    parts = read_markup(markup)
    assert len(parts.texts) == 1
    return parts.fill(iter([(translation, alignment)]))


@pytest.mark.parametrize("markup, translation, expected", [
    # By share of the words, within marks.
    ("a <b>dog</b>, big", "ein Hund, groß", "ein <b>Hund</b>, groß"),
    ("a (<i>small</i>) dog", "ein (kleiner) Hund", "ein (<i>kleiner</i>) Hund"),
    ('say "<b>no</b>."', 'sag "nein."', 'sag "<b>nein</b>."'),
    ("one <b>two</b> three four", "eins", "<b>eins</b>"),
    ("un<b>believ</b>able thing", "unglaubliches Ding", "<b>unglaubliches</b> Ding"),
    # Around the same words in both.
    ("now open <b>Data Loader</b>", "Data Loader jetzt öffnen", "<b>Data Loader</b> jetzt öffnen"),
    # Each sentence for itself.
    ("One two three four. <b>Five</b> six.", "Eins. Fünf sechs.", "Eins. <b>Fünf</b> sechs."),
    # Spaces are on the side where they were.
    ("a<b> dog</b> ran", "ein Hund lief", "ein<b> Hund</b> lief"),
    ("see <img> now", "sieh jetzt", "sieh <img> jetzt"),
    ("see <img>, now", "sieh, jetzt", "sieh <img>, jetzt"),
    ("note<sup>1</sup> here", "Hinweis hier", "Hinweis<sup>1</sup> hier"),
    # A single one is apart from words, unless the source has a letter there.
    ("hello <img>, how are you", "hallo wie geht es dir", "hallo <img> wie geht es dir"),
    ("the dog (<img>, big) ran", "der Hund rannte", "der Hund <img> rannte"),
    ("see: <img>here", "sieh hier", "sieh <img>hier"),
    ("the <img>, big dog", "der (große) Hund", "der <img> (große) Hund"),
    ("the dog: <img>, <img> big", "der Hund groß", "der Hund <img>, <img> groß"),
    ("the dog ran <img>, big", "der Hund rannte. groß", "der Hund rannte <img>. groß"),
    ("the <b>dog <img></b>, big", "der Hund groß", "der <b>Hund <img></b> groß"),
    ("hello <img>, you", "你好你", "你好 <img>你"),
    # It has marks that are around it alone, or would follow another mark without it.
    ("the dog (<img>) ran", "der Hund rannte", "der Hund (<img>) rannte"),
    ('the dog "<wbr><img>" ran', "der Hund rannte", 'der Hund "<wbr><img>" rannte'),
    ('the dog ("<img>") ran', "der Hund rannte", 'der Hund ("<img>") rannte'),
    ('the "dog"<img>"ran" so', 'der "Hund" lief so', 'der "Hund"<img> lief so'),
    ("the dog: <img>, ran", "der Hund: rannte", "der Hund: <img>, rannte"),
    ("the dog: <img>.", "der Hund:", "der Hund: <img>."),
    # A pair around a space is one.
    ("a dog<b> </b>ran there", "ein Hund rannte dort", "ein Hund<b> </b>rannte dort"),
    ("a dog<b>&nbsp;</b>ran there", "ein Hund rannte dort", "ein Hund<b>&nbsp;</b>rannte dort"),
    ("a dog <i><b> </b></i> ran", "ein Hund rannte", "ein Hund <i><b> </b></i> rannte"),
    ("a_<wbr>dog<wbr>Ran there", "ein Hund dort", "<wbr><wbr>ein Hund dort"),
    # The first and the last word, number, or sign is in the text, within a tag, too.
    ("this costs <b>€10.</b>", "das kostet 10 €.", "das kostet <b>10 €.</b>"),
    ("(<i>12</i> dogs)", "(12 Hunde)", "(<i>12</i> Hunde)"),
    ("hi <b>it costs </b>5 €", "hallo es kostet 5 €", "hallo <b>es kostet </b>5 €"),
    ("<b> hi</b> you<i> there </i>", "hallo du dort", "<b> hallo</b> du<i> dort </i>"),
    ("<a>From</a>&lt;<a>Char</a>&gt; x", "From<Char> y", "<a>From</a>&lt;<a>Char</a>&gt; y"),
    # A pair without text is like a single tag.
    ("with <i></i> it (<b><img></b>) is", "mit ihm () ist", "mit <i></i> ihm (<b><img></b>) ist"),
    # None goes into a placeholder or the like.
    ("in <i>{{ count }} a</i> line", "in {{ count }} Zeile", "in <i>{{ count }}</i> Zeile"),
    ("is <i>[[x]] so</i> it", "[[x]] ist", "[[x]] <i>ist</i>"),
    ("an a/b is a<b>/b</b> so", "ein a/b ist a/b so", "ein a/b ist a<b>/b</b> so"),
    ("to ({<b>x</b>}) y", "zu ({x}) z", "zu ({<b>x</b>}) z"),
    # Signs are spelled as they were.
    ("R&amp;D &#169; x > y <i>z</i>", "F&E x > y z", "F&amp;E &#169; x > y <i>z</i>"),
])  # fmt: skip
def test_tag_goes_to_its_share_of_the_words(markup, translation, expected):
    assert fill(markup, translation) == expected


@pytest.mark.parametrize("alignment, expected", [
    (None, "heute <b>läuft</b> <i>der</i> Hund"),
    ([(0, 2), (1, 3), (2, 1), (3, 0)], "heute <i>läuft</i> der <b>Hund</b>"),
    ([(1, 3)], "heute <b>läuft</b> <i>der</i> Hund"),  # a single link does not change the order of tags
    ([(9, 9)], "heute <b>läuft</b> <i>der</i> Hund"),  # of no words at all
])  # fmt: skip
def test_tag_follows_its_words_by_an_alignment(alignment, expected):
    translation = "heute läuft der Hund"
    assert fill("the <b>dog</b> <i>runs</i> today", translation, alignment) == expected


@pytest.mark.parametrize("markup, translation, alignment, expected", [
    # One link that is far from the others.
    ("a <b>big black dog</b> ran over there", "ein großer schwarzer Hund lief dort hinüber",
     [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (6, 5), (1, 6)],
     "ein <b>großer schwarzer Hund</b> lief dort hinüber"),
    # A word between others that is linked to nothing, or to a word outside.
    ("<b>one two three</b> four", "drei und zwei eins vier", [(2, 0), (1, 2), (0, 3), (3, 4)],
     "<b>drei und zwei eins</b> vier"),
    # Two pairs that claim the same word.
    ("<b>one</b> <i>two three</i>", "zwei drei eins", [(1, 0), (2, 1), (0, 1), (0, 2)],
     "<i>zwei drei</i> <b>eins</b>"),
    # Equal words go before links.
    ("open <b>Foo</b> now", "jetzt Foo öffnen", [(2, 0), (0, 1), (1, 2)], "jetzt <b>Foo</b> öffnen"),
])  # fmt: skip
def test_tag_goes_around_the_range_with_the_best_links(markup, translation, alignment, expected):
    assert fill(markup, translation, alignment) == expected


def test_unchanged_text_stays_byte_for_byte():
    markup = "<p>a\n   <b>b </b>&#x63; &auml;ä  d</p>"
    parts = read_markup(markup)
    assert parts.fill(iter([(parts.texts[0], None)])) == markup


def test_entities_of_symbols_with_a_space_beside_them_go_where_a_tag_would_go():
    parts = read_markup("Tom &amp; Bob: 5 &lt; &euro;6 &lt;b&gt; c&#1;")
    assert parts.texts == ["Tom & Bob: 5 6 <b> c"] and parts.has_tags == [True]
    assert parts.fill(iter([("Tim und Bob: 5 6 <b> d", None)])) == "Tim und Bob: 5 &lt; &euro;6 &lt;b&gt; d"


def test_unclosed_tags_keep_their_order():
    assert fill("a</i> b <b>c</u> d", "eins zwei drei vier") == "eins</i> zwei <b>drei</u> vier"


def random_sentence(generator: random.Random) -> str:
    """Words with nested tags, single ones, comments, and entities."""

    def some(depth: int) -> str:
        pieces = []
        for _ in range(generator.randint(1, 5)):
            kind = generator.random()
            if kind < 0.2 and depth < 4:
                name = generator.choice(["b", "i", "a", "span"])
                pieces.append(f'<{name} n="{generator.random()}">{some(depth + 1)}</{name}>')
            elif kind < 0.3:
                pieces.append(generator.choice(["<img/>", f"<!-- {generator.random()} -->", "<wbr/>", "<b></b>"]))
            elif kind < 0.4:
                pieces.append(generator.choice(ENTITIES))
            else:
                pieces.append(generator.choice(WORDS) + generator.choice([*MARKS, "", "", "", ""]))
        return "".join(piece + generator.choice(["", " ", " ", " "]) for piece in pieces)

    return f"<p>Anfang {some(0)} Ende</p>"


def check_validity(markup: str) -> None:
    expat.ParserCreate().Parse(markup, True)


@pytest.mark.parametrize("is_html", [True, False], ids=["html", "xml"])
def test_nothing_is_lost_doubled_or_invalid_in_random_sentences(is_html):
    generator = random.Random(0)
    for _ in range(1000):
        markup = random_sentence(generator)
        check_validity(markup)
        parts = read_markup(markup, is_html)
        assert parts.fill(zip(parts.texts, [None] * len(parts.texts))) == markup
        translations = []
        for text in parts.texts:
            words = text.split()
            generator.shuffle(words)
            pairs = [(generator.randrange(20), generator.randrange(20)) for _ in range(generator.randint(0, 9))]
            translations.append((" ".join(words[: generator.randint(0, len(words))]), pairs))
        filled = parts.fill(iter(translations))
        check_validity(filled)
        assert Counter(TAG.findall(filled)) == Counter(TAG.findall(markup))
        plain = Counter("".join(TAG.sub("", filled).split()))
        assert plain == Counter(
            "".join(
                TAG.sub(
                    "",
                    read_markup(markup, is_html).fill(
                        (("".join(translation), None) for translation, _ in translations)
                    ),
                ).split()
            )
        )
