"""Text that is made to take long: the time to read and fill a document grows with its length, not with its square."""

import json
import random
import time
from html import escape

import pytest

from hf_vaswani.core.sentence_splitting import join_texts, split_sentences, split_text
from hf_vaswani.documents.markup import read_markup
from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.markup import TAG
from hf_vaswani.text.glossary import Glossary
from hf_vaswani.text.inputs import looks_like_mojibake
from hf_vaswani.text.keep_patterns import KINDS, find_kept, keep_patterns
from hf_vaswani.text.normalization import invisible_normalizer
from hf_vaswani.text.words import word_spans

from .test_office import docx

# What begins, continues, or ends something in some format, alone or with what comes before or after it.
UNITS = [
    *"\"'()*+-./:;<>=@[]\\^_`{|}~#%&$!?, \t\na0é中", *"\u00a0\u0301\u200c\u200d\ufe0f\U0001f600\u20e3",
    "<!--", "-->", "<![CDATA[", "]]>", "<?", "<!DOCTYPE ", "<!DOCTYPE a [", "</", "/>", "<a", "<a ", "<b>",
    "</b>", "<b>a ", "<code>", "<sup>", 'a="', "='", "<a b='", '<img alt="', "&lt; ", "&#", "&a", "{{", "{%",
    "{a, plural, one {", "} other {", "![", "](", "[a](b)", "[a]: b\n", "[^", "**", "*a **b ", "*a", "_a_", "`a``b",
    "```", "~~", "| a ", "> ", "- ", "1. ", "http://", "www.", "a@", "@a.", "a.b", "%(", "%1", "%0", "$t(", "\\u",
    "\\n", "''", "1:", "1.1", "1 km ", "a. ", "A. . ", "<w:r><w:t>a</w:t></w:r>",
    "`a <", ":a:`", "``", "$a", "%a%", "%<", "@a", "&lt;a", "_a", "&a", "0,choice,0#a|", "a_", "a.", "0a", "-->\n",
    ":::", ":::a[", "!!! a", '!!! a "', "$$", "a__", "__a", "${a.b}/", "{a}", "a://", "title: ", "\\ ", "/*",
    '"a" = "',
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r>', "<w:ins>", 'msgstr[0] ""\n', "»", " »", "。",
]  # fmt: skip


def one_line(text: str) -> str:
    return " ".join(text.splitlines())


def as_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


XLIFF = '<xliff version="1.2"><file><body><trans-unit><source>{}</source></trans-unit></body></file></xliff>'
DOCUMENTS = {
    "html": lambda text: f"<p>a <b>{text}</b>",
    "xml": lambda text: f"<a>b <c>{escape(text)}</c></a>",
    "xliff": lambda text: XLIFF.format(f"a <g id='1'>{escape(text)}</g>"),
    "po": lambda text: f'msgid {as_string(one_line(text))}\nmsgstr ""\n',
    "srt": lambda text: f"1\n00:01,0 --> 00:02,0\n<i>a</i>{text}\n",
    "vtt": lambda text: f"WEBVTT\n\n00:01.000 --> 00:02.000\n<i>a</i>{text}\n",
    "md": lambda text: f"a *b* {text}",
    "json": lambda text: json.dumps({"a": text}, ensure_ascii=False),
    "properties": lambda text: f"a = <b>a</b> {text}\nb = {text}",
    "resx": lambda text: f"<root><data><value>{escape(text)}</value></data></root>",
    "strings": lambda text: f'"a" = {as_string(text)};\n{text}',
    "stringsdict": lambda text: f"<plist><dict><key>a</key><string>{escape(text)}</string></dict></plist>",
    "tmx": lambda text: f'<tmx><body><tu><tuv xml:lang="a"><seg>{escape(text)}</seg></tuv></tu></body></tmx>',
    "txt": str,
    "docx": lambda text: docx(f"<w:p><w:r><w:t>a {escape(text)}</w:t></w:r><w:r><w:rPr/><w:t>b</w:t></w:r></w:p>"),
}


def read_and_fill(kind: str, content: bytes) -> None:
    try:
        document = read_document(kind, content)
    except InputError:
        return
    document.fill(document.texts)
    document.fill([f"{text.upper()} b" for text in document.texts])


def read_unchecked(text: str, is_html: bool = False) -> None:
    parts = read_markup(text, is_html)
    parts.fill((text.upper(), None) for text in parts.texts)


FUNCTIONS = {
    **{f"keep {kind}": lambda text, kind=kind: find_kept(text, keep_patterns(kind)) for kind in KINDS},
    "markup": read_unchecked,
    "front matter": lambda text: read_and_fill("md", f"---\ntitle: {one_line(text)}\n{text}\n---\n".encode()),
    "Android": lambda text: read_and_fill(
        "xml", f"<resources><string>a {escape(text)}<![CDATA[<b>{text}</b>]]></string></resources>".encode()
    ),
    "words": word_spans,
    "sentences": split_sentences,
    "pieces": lambda text: join_texts(
        [piece.text for piece in split_text(text, lambda part: len(part) < 99)], split_text(text, lambda part: True)
    ),
    "mojibake": looks_like_mojibake,
    "tags": TAG.findall,
    "glossary": Glossary.of({"a": "b", "a b": "c"}).of_text,
    "normalizer": invisible_normalizer().normalize_str,
}


def texts(length: int, pairs: int, seed: int) -> list[str]:
    """Each unit again and again; and random pairs of them, alternating, one after another, and one of them once."""
    generator = random.Random(seed)
    found = [unit * (length // len(unit)) for unit in UNITS]
    for _ in range(pairs):
        one, other = generator.sample(UNITS, 2)
        found.append(generator.choice((
            (one + other) * (length // len(one + other)),
            one * (length // 2 // len(one)) + other * (length // 2 // len(other)),
            one + other * (length // len(other)),
        )))  # fmt: skip
    return found


def assert_fast(work, found: list[str], seconds: float) -> None:
    for text in found:
        began = time.process_time()
        work(text)
        assert time.process_time() - began < seconds, text[:20]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_patterns_take_time_that_grows_with_the_text(name):
    # 20,000 characters take milliseconds, and seconds if each is compared with each.
    assert_fast(FUNCTIONS[name], texts(20_000, 40, seed=0), 1)


@pytest.mark.parametrize("kind, text", [
    ("html", "<" + "a" * 25_000), ("xml", "<!--" * 24_000), ("md", "*a **b " * 10_000), ("md", "`a``b" * 10_000),
    ("md", "&" * 10_000 + "_a_" * 10_000), ("md", "[^" * 10_000), ("md", "{{" * 20_000), ("srt", " " * 30_000),
    ("json", "1:" * 30_000 + "<b>"), ("json", "{" + "1" * 30_000), ("html", "&#" + "9" * 30_000 + ";"),
    ("html", "<b>" * 20_000), ("html", "<code>" + "<b>" * 20_000 + "</b>" * 20_000), ("html", "!<b>" * 10_000),
    ("txt", "\n" * 90_000),
])  # fmt: skip
def test_documents_that_were_slow_are_read_at_once(kind, text):
    assert_fast(lambda text: read_and_fill(kind, DOCUMENTS[kind](text).encode()), [text], 5)
    assert_fast(lambda text: read_and_fill(kind, text.encode()), [text], 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_documents_of_each_format_take_time_that_grows_with_the_text(kind):
    def work(text: str) -> None:
        content = DOCUMENTS[kind](text)
        read_and_fill(kind, content if isinstance(content, bytes) else content.encode())
        read_and_fill(kind, docx(text) if kind == "docx" else text.encode())

    assert_fast(work, texts(10_000, 20, seed=1), 3)


def test_fields_and_runs_within_each_other_take_no_longer():
    begin = '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
    run = "<w:r><w:t>a</w:t></w:r>"
    for body in (
        begin * 5000,
        f"<w:ins w:id='{'1' * 20_000}'>" + run * 3000 + "</w:ins>",
        "<w:ins>" * 2000 + run + "</w:ins>" * 2000,
    ):
        assert_fast(lambda content: read_and_fill("docx", content), [docx(f"<w:p>{body}</w:p>")], 5)
