"""TMX: the two languages of a translation memory, read as a stream."""

import gzip
import tracemalloc

import pytest
import zstandard

from hf_vaswani.data.sources import tmx
from hf_vaswani.data.sources.text_source import TextSource, check_source, iterate_pairs
from hf_vaswani.errors import InputError

# As OmegaT, Trados, and memoQ write them: with `lang` or `xml:lang`, regions, properties, and inline codes.
MEMORY = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
<header creationtool="x" segtype="sentence" srclang="EN-US" datatype="xml"><note>no text</note></header>
<body>
{units}
</body>
</tmx>
"""


def unit(**texts: str) -> str:
    """A unit, whose languages have underscores."""
    sides = "".join(
        f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in texts.items()
    )
    return f"<tu>{sides}</tu>"


@pytest.fixture
def read(tmp_path):
    """The pairs of a memory in German and English, of units or of a whole file."""

    def read(content: str | bytes, languages=("de", "en"), name: str = "memory.tmx", **fields) -> list:
        if isinstance(content, str) and "<tmx" not in content:
            content = MEMORY.format(encoding="UTF-8", units=content)
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return list(iterate_pairs(TextSource(file=tmp_path / name, **fields), languages))

    return read


def error_of(read, content, **fields) -> str:
    with pytest.raises(InputError) as error:
        read(content, **fields)
    return str(error.value).rpartition("/")[2]


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({"en": "a", "de": "b"}, "b"),
        ({"EN-US": "a", "DE-de": "b"}, "b"),
        ({"en_US": "a", "fr": "x", "de_CH": "c", "de": "b"}, "b"),  # the very code, wherever it is
        ({"en": "a", "de_AT": "b", "de_CH": "c"}, "b"),  # or else the first
    ],
)
def test_texts_are_chosen_by_their_languages(read, own, wanted):
    assert read(unit(**own)) == [(wanted, "a")]
    assert read(unit(**own).replace("xml:lang", "lang"), ("en", "de")) == [("a", wanted)]


def test_two_varieties_of_a_language_are_its_two_sides(read):
    own = unit(en_US="color", en_GB="colour")
    assert read(own, ("en", "en-US")) == [("colour", "color")]
    assert read(own, ("en-US", "en-GB")) == read(own, (None, None), source_column="en-us", target_column="EN_GB")
    assert read(own, ("en-US", "en-GB")) == [("color", "colour")]


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('a <bpt i="1">&lt;b></bpt>big<ept i="1">&lt;/b></ept> dog', "a big dog"),
        ('a <hi type="bold">big</hi> dog', "a big dog"),
        ('press <ph x="1">{key}</ph> now', "press now"),
        ('<it pos="begin">&lt;a title="<sub>a title</sub>"></it>dog', "dog"),
        ('one<ph type="lb"/>two<ph>&lt;br/></ph>three', "one two three"),
        ('<ut>{\\cs6 </ut>a<ut>}</ut>b', "ab"),
        ("a &amp; b &#x20AC; <![CDATA[<c>]]>", "a & b € <c>"),
        ("a&nbsp;b", "a\xa0b"),
        ("\n  a\n  b\t", "a b"),
        ("", ""),
    ],
)  # fmt: skip
def test_codes_inside_a_text_are_left_out_and_its_words_stay(read, segment, text):
    assert read(unit(de="x", en="y") + unit(de=segment, en="b")) == [("x", "y"), (text, "b")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_declared_encodings_are_read(read, encoding):
    content = MEMORY.format(encoding=encoding.upper(), units=unit(de="größer", en="big")).encode(encoding)
    assert read(content) == [("größer", "big")]


@pytest.mark.parametrize("compress, suffix", [(gzip.compress, ".gz"), (zstandard.compress, ".zst")])
def test_compressed_memories_are_read(read, compress, suffix):
    content = MEMORY.format(encoding="UTF-8", units=unit(de="a", en="b")).encode()
    assert read(compress(content), name=f"memory.tmx{suffix}") == [("a", "b")]
    assert "memory.tmx.gz is truncated" in error_of(read, gzip.compress(content)[:-20], name="memory.tmx.gz")


def test_units_that_lack_a_language_are_left_out_and_counted(read, caplog):
    tmx._warn.cache_clear()
    units = [unit(de="a", en="b"), unit(de="c"), unit(en="d", fr="e"), "<tu></tu>", '<tu><tuv xml:lang="de"/></tu>']
    assert read("\n".join(units)) == read("\n".join(units)) == [("a", "b")]
    [message] = [record.message.rpartition("/")[2] for record in caplog.records]
    assert message == (
        "memory.tmx: 4 of 5 units have no text in both 'de' and 'en' and are left out; the first is in line 7"
    )


def test_place_of_a_unit_is_its_line(read, tmp_path):
    read(unit(de="a", en="b") + "\n\n" + unit(de="c", en="d"))
    records = list(tmx.read_tmx(tmp_path / "memory.tmx", [("de", "en")], None))
    assert records == [(6, {"de": "a", "en": "b"}), (8, {"de": "c", "en": "d"})]


@pytest.mark.parametrize("languages", [("de", "fr"), (None, None)])
def test_memory_without_the_languages_names_those_that_it_has(read, languages):
    message = error_of(read, unit(de_DE="a", en_US="b"), languages=languages)
    assert message.startswith("memory.tmx: no unit has a text in both ")
    assert message.endswith("Its languages are: de-DE, en-US. Specify two of them with source_language and "
                            "target_language.")  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<tmx><body><tu>\n<tuv", "memory.tmx is truncated after line 2: its end is missing. Copy or download"),
        (b"<tmx>\n<body>\n", "memory.tmx is truncated after line 3: its end is missing."),
        (b"<tmx>\n\xe4</tmx>", "memory.tmx, line 2, column 1: byte 0xe4 is not valid UTF-8. Convert the file"),
        (b"<tmx>\na & b</tmx>", "memory.tmx, line 2, column 4: not well-formed (invalid token). Correct it"),
        (b"<tmx></tu>", "memory.tmx, line 1, column 8: mismatched tag. Correct it"),
        (b"<html>\n</html>", "memory.tmx, line 1: the root element is html, not tmx. Is it another format?"),
        (b"Hallo\n", "memory.tmx, line 1, column 1: syntax error."),
        (b'<!DOCTYPE tmx [\n<!ENTITY a "b">\n<!ENTITY c "&a;&a;">]><tmx/>', "memory.tmx, line 3: the entity c refers"),
        (b'<!DOCTYPE tmx [<!ENTITY a SYSTEM "/etc/passwd">]><tmx/>', "memory.tmx, line 1: the entity a refers"),
        (b"<tmx>" + b"<a>" * 200, "memory.tmx, line 1: more than 100 elements within each other."),
        (b"<tmx a='" + b"a" * (6 << 20), "memory.tmx, line 1: longer than 4 MiB."),
        (b"<tmx><tu><tuv><seg>" + b"a" * (18 << 20), "memory.tmx, line 1: longer than 16 MiB."),
        (b'<!DOCTYPE tmx [<!ENTITY a "' + b"a" * 10_000 + b'">]><tmx><tu><tuv><seg>' + b"&a;" * 5_000,
         "memory.tmx, line 1"),
    ],
    ids=range(13),
)  # fmt: skip
def test_damaged_and_hostile_files_are_errors_with_their_line(read, content, message):
    assert error_of(read, content).startswith(message)


def test_units_before_an_error_are_yielded(tmp_path):
    (tmp_path / "cut.tmx").write_text(f"<tmx><body>{unit(de='a', en='b') * 50_000}")
    pairs = iterate_pairs(TextSource(file=tmp_path / "cut.tmx"), ("de", "en"))
    for _ in range(50_000):
        assert next(pairs) == ("a", "b")
    with pytest.raises(InputError, match="is truncated after line 1"):
        next(pairs)
    assert check_source(TextSource(file=tmp_path / "cut.tmx"), ("de", "en")) == []


def test_memory_in_use_does_not_grow_with_the_file(tmp_path):
    peaks = []
    for size in (2_000, 10_000):
        (tmp_path / "a.tmx").write_text(f"<tmx><body>{unit(de='Wort ' * 9, en='word ' * 9) * size}</body></tmx>")
        tracemalloc.start()
        assert sum(1 for _ in iterate_pairs(TextSource(file=tmp_path / "a.tmx"), ("de", "en"))) == size
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
