"""Each format: which of its text is translated, and that all else is as it was."""

import re

import pytest

from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError

HTML = """\
<!DOCTYPE html>
<html><head><title>A &amp; b</title><style>p {color: red}</style></head>
<body class="x y"><!-- first --><p>It&#39;s <b>big</b>, see
  <a href='?a=1&b' title="here">me</a>!<br>Next<p>run <code>x = 1</code> now<sup>1</sup></p>
<ul><li>one<li translate="no">two</ul><p><b>All.</b> 12</p><script>var a = "b"</script></body></html>
"""
HTML_FILLED = """\
<!DOCTYPE html>
<html><head><title>A &amp; B</title><style>p {color: red}</style></head>
<body class="x y"><!-- first --><p>IT&#39;S <b>BIG</b>, SEE <a href='?a=1&b' title="HERE">ME</a>!<br>NEXT<p>RUN \
<code>x = 1</code> NOW<sup>1</sup></p>
<ul><li>ONE<li translate="no">two</ul><p><b>ALL.</b> 12</p><script>var a = "b"</script></body></html>
"""
XML = """\
<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE r [<!ENTITY app "App">]>
<r a="b > c"><s>in &app; <b>the <i>end</i></b></s>
  <list><s>one</s> <s>two</s></list><t translate="no">no</t>
  <c><![CDATA[<p>hi <b>you</b></p>]]></c>\xe9<?pi x?></r>
"""
XML_FILLED = """\
<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE r [<!ENTITY app "App">]>
<r a="b > c"><s>IN &app; <b>THE <i>END</i></b></s>
  <list><s>ONE</s> <s>TWO</s></list><t translate="no">no</t>
  <c><![CDATA[<p>HI <b>YOU</b></p>]]></c>\xc9<?pi x?></r>
"""
MARKDOWN = """\
---
title: here
---
# The *end* #

see **this
and** [a link](http://x.y "T") with `code`\x20\x20
now \\* a_b <b>x</b>, https://x.y/z or ![image](i.png).[^1]

> - in two
>   lines

| one | two \\| three |
|-----|:-:|
| a `b` | **c** d |

```py
code = 1
```

<div>
as <em>html</em>
</div>

1. [named][1]

<!-- -->

    code

[1]: http://x.y "title"
"""
MARKDOWN_FILLED = """\
---
title: HERE
---
# THE *END* #

SEE **THIS AND** [A LINK](http://x.y "T") WITH `code`\x20\x20
NOW \\* A_B <b>X</b>, https://x.y/z OR ![IMAGE](i.png).[^1]

> - IN TWO LINES

| ONE | TWO \\| THREE |
|-----|:-:|
| A `b` | **C** D |

```py
code = 1
```

<div>
AS <em>HTML</em>
</div>

1. [NAMED][1]

<!-- -->

    code

[1]: http://x.y "TITLE"
"""
JSON = r"""{"a": {"name": "hi {name}, %s",  "n": [1, true, "\u00fcber \"x\"\n end", "https://x.y"]},
 "c": "you have {n, plural, one {# file} other {# <b>files</b>}} now", "@c": {"description": "note"},
 "t": "{{count}} of $t(all) <0>here</0>", "empty": ""}"""
JSON_FILLED = r"""{"a": {"name": "HI {name}, %s",  "n": [1, true, "\u00dcBER \"X\"\n END", "https://x.y"]},
 "c": "YOU HAVE {n, plural, one {# FILE} other {# <b>FILES</b>}} NOW", "@c": {"description": "note"},
 "t": "{{count}} OF $t(all) <0>HERE</0>", "empty": ""}"""
PROPERTIES = """\
# not this
one = hi {0}, it''s \\u00fcber \\
      all
two:don't\\n go
a\\ key = b\\: c
none=
! nor this"""
PROPERTIES_FILLED = """\
# not this
one = HI {0}, IT''S \\u00dcBER ALL
two:DON'T\\n GO
a\\ key = B\\: C
none=
! nor this"""
SRT = """\
1\r
00:00:01,000 --> 00:00:02,000 X1:1\r
{\\an8}one <i>two\r
three</i>\r
\r
2\r
00:00:03,000 --> 00:00:04,000\r
- hi!\r
- you?\r
"""
VTT = """\
WEBVTT - title

STYLE
::cue {color: red}

NOTE not this

intro
00:01.000 --> 00:02.000 align:start
<v Roger>you &amp; <00:01.500>me
<c.loud>both</c>
"""
RESX = """\
<root><resheader name="version"><value>2.0</value></resheader>
<data name="a" xml:space="preserve"><value>go {0}
to &lt;it&gt;</value><comment>note</comment></data>
<data name="b.Size" type="System.Drawing.Size"><value>a size</value></data>
<data name="&gt;&gt;b.Name"><value>name</value></data></root>
"""
ANDROID = r"""<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
  <string name="a">it\'s \"%1$s\"\n<b>big</b> for
    <xliff:g id="x">%s x</xliff:g></string>
  <string name="b" translatable="false">no</string><string name="c">"it's <xliff:g id="y">%d</xliff:g> so"</string>
  <plurals name="d"><item quantity="one">a dog</item><item quantity="other">%d dogs</item></plurals>
  <string-array name="e"><item>one</item><item>@string/two</item></string-array>
  <string name="f"><![CDATA[<p>hi</p>]]></string><color name="g">red</color>
</resources>
"""
APPLE = r"""/* "note" = "this"; */
"key" = "hi %@, \"you\"\nor";  // more
other = "it\U2019s";
"id" = 12;
"""
PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict><key>%d files</key><dict>
  <key>NSStringLocalizedFormatKey</key><string>now %#@files@ here</string>
  <key>files</key><dict>
    <key>NSStringFormatSpecTypeKey</key>
    <string>NSStringPluralRuleType</string>
    <key>NSStringFormatValueTypeKey</key>
    <string>d</string>
    <key>one</key><string>%d file &amp; more</string>
    <key>other</key>
    <string>%d files</string>
</dict></dict></dict></plist>
"""
PLIST_FILLED = (
    PLIST.replace("now %", "NOW %").replace("here", "HERE").replace("d file &amp; more", "d FILE &amp; MORE")
)
PLIST_FILLED = PLIST_FILLED.replace("<string>%d files", "<string>%d FILES")
ARB = '{"@@locale": "en", "hi": "hi {name}", "@hi": {"description": "no"}}'
CASES = [
    ("txt", "one\r\n\r\n  two\t\nthree", "ONE\r\n\r\n  TWO\t\nTHREE"),
    ("html", HTML, HTML_FILLED),
    ("xml", XML, XML_FILLED),
    ("md", MARKDOWN, MARKDOWN_FILLED),
    ("json", JSON, JSON_FILLED),
    ("properties", PROPERTIES, PROPERTIES_FILLED),
    ("resx", RESX, RESX.replace("go {", "GO {").replace("to &lt;it", "TO &lt;it")),
    ("xml", ANDROID, ANDROID.replace("it\\'s", "IT\\'S").replace("big</b> for", "BIG</b> FOR")
     .replace("it's", "IT'S").replace(' so"', ' SO"').replace("a dog", "A DOG").replace("d dogs", "d DOGS")
     .replace("<item>one", "<item>ONE")
     .replace("hi</p>", "HI</p>")),
    ("strings", APPLE, APPLE.replace("hi %@", "HI %@").replace("you", "YOU").replace("or\"", "OR\"")
     .replace("it\\U2019s", "IT\\U2019S")),
    ("stringsdict", PLIST, PLIST_FILLED),
    ("strings", PLIST, PLIST_FILLED),
    ("json", ARB, ARB.replace("hi {", "HI {")),
    ("srt", SRT, SRT.replace("one <i>two", "ONE <i>TWO").replace("three", "THREE").replace("hi", "HI")
     .replace("you", "YOU")),
    ("vtt", VTT, VTT.replace("you", "YOU").replace(">me", ">ME").replace(">both", ">BOTH")),
]  # fmt: skip


@pytest.mark.parametrize("kind, content, filled", CASES, ids=[f"{case[0]}{n}" for n, case in enumerate(CASES)])
def test_text_is_translated_and_nothing_else_is_changed(kind, content, filled):
    encoding = "latin-1" if kind == "xml" else "utf-8"
    document = read_document(kind, content.encode(encoding))
    assert document.fill(document.texts) == content.encode(encoding)
    assert document.fill([text.upper() for text in document.texts]).decode(encoding) == filled


@pytest.mark.parametrize("translation", ["", " \n\u3000"])
@pytest.mark.parametrize("kind, content, filled", CASES, ids=[f"{case[0]}{n}" for n, case in enumerate(CASES)])
def test_text_with_an_empty_translation_stays(kind, content, filled, translation):
    content = content.encode("latin-1" if kind == "xml" else "utf-8")
    document = read_document(kind, content)
    assert document.fill([translation] * len(document.texts)) == content


@pytest.mark.parametrize("content, texts", [
    ("<p a=don't b>x</p>", ["x"]),
    ("<a href=/x/>one</a> two", ["one two"]),
    ('<script>if (a<b) "</p>"</SCRIPT ><!-->x<!-- y -->', ["x"]),
    ("1 < 2 <b>a</b> <![if x]>b<![endif]> <c d", ["1 < 2 a b"]),
    ("a <%= b > c %> d {{ e }} f {% if g %}", ["a d f"]),
    ('<img src="a>b">c<IMG>', ["c"]),
])  # fmt: skip
def test_tags_of_html_are_found_as_by_browsers(content, texts):
    document = read_document("html", content.encode())
    assert document.texts == texts and document.fill(texts) == content.encode()


def test_label_that_a_link_is_found_by_stays():
    content = "See [the page] or **`x`** [more][], **`y`**.\n\n[the page]: http://x.y\n[more]: http://y.z\n"
    document = read_document("md", content.encode())
    assert document.texts == ["See the page or more,"] and document.fill(document.texts) == content.encode()
    assert document.fill(["Siehe die Seite oder mehr,"]).decode().splitlines()[0] == (
        "Siehe [die Seite][the page] oder **`x`** [mehr][more], **`y`**."
    )


def test_placeholders_and_tags_are_not_in_the_texts():
    assert read_document("json", JSON.encode()).texts == [
        "hi,", 'über "x"', "end", "you have", "file", "files", "now", "of here",
    ]  # fmt: skip


PO = r"""# a comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"

#: a.c:1
#, fuzzy
msgid "old"
msgstr "alt"

#, c-format
#| msgid "before"
msgctxt "menu"
msgid "hi %s, \"you\"\n"
msgstr ""

msgid "one file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgid ""
"first\n"
"second"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""


def test_po_file_gets_its_missing_translations_in_every_form():
    document = read_document("po", PO.encode())
    filled = (
        PO.replace('\\"you\\"\\n"\nmsgstr ""', '\\"you\\"\\n"\nmsgstr "HI %s, \\"YOU\\"\\n"')
        .replace('msgstr[0] ""', 'msgstr[0] "ONE FILE"')
        .replace('msgstr[1] ""', 'msgstr[1] "%d FILES"')
        .replace('msgstr[2] ""', 'msgstr[2] "%d FILES"')
        .replace('second"\nmsgstr ""', 'second"\nmsgstr ""\n"FIRST\\n"\n"SECOND"')
    )
    assert document.fill([text.upper() for text in document.texts]).decode() == filled
    done = read_document("po", filled.encode())
    assert (done.texts, done.fill([])) == ([], filled.encode())


XLIFF_1 = """\
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"><body>
  <trans-unit id="1">
    <source>hi <g id="1">big <x id="2"/></g>world<bpt id="3">&lt;b></bpt>!<ept id="3">&lt;/b></ept></source>
    <note>not this</note>
  </trans-unit>
  <trans-unit id="2"><source>done</source><target state="final">fertig</target></trans-unit>
  <trans-unit id="3"><source>new</source><target state="new"/></trans-unit>
  <trans-unit id="4" translate="no"><source>no</source></trans-unit>
  <trans-unit id="5"><source>a b</source><seg-source><mrk mid="1" mtype="seg">a</mrk> <mrk mid="2" mtype="seg">b</mrk>\
</seg-source></trans-unit>
</body></file></xliff>
"""
XLIFF_1_FILLED = """\
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"><body>
  <trans-unit id="1">
    <source>hi <g id="1">big <x id="2"/></g>world<bpt id="3">&lt;b></bpt>!<ept id="3">&lt;/b></ept></source>
    <target state="needs-review-translation" state-qualifier="mt-suggestion">HI <g id="1">BIG <x id="2"/></g>WORLD\
<bpt id="3">&lt;b></bpt>!<ept id="3">&lt;/b></ept></target>
    <note>not this</note>
  </trans-unit>
  <trans-unit id="2"><source>done</source><target state="final">fertig</target></trans-unit>
  <trans-unit id="3"><source>new</source><target state="needs-review-translation" state-qualifier="mt-suggestion">NEW\
</target></trans-unit>
  <trans-unit id="4" translate="no"><source>no</source></trans-unit>
  <trans-unit id="5"><source>a b</source><seg-source><mrk mid="1" mtype="seg">a</mrk> <mrk mid="2" mtype="seg">b</mrk>\
</seg-source><target state="needs-review-translation" state-qualifier="mt-suggestion"><mrk mid="1" mtype="seg">A</mrk>\
 <mrk mid="2" mtype="seg">B</mrk></target></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = """\
<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1">
<segment><source>hi <pc id="1">big</pc> <ph id="2"/> world</source></segment>
<segment state="final"><source>done</source><target>fertig</target></segment>
<segment state="initial"><source><sc id="3"/>x<ec startRef="3"/> y</source><target>x y</target></segment>
</unit></file></xliff>"""
XLIFF_2_FILLED = """\
<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1">
<segment state="translated"><source>hi <pc id="1">big</pc> <ph id="2"/> world</source>\
<target>HI <pc id="1">BIG</pc> <ph id="2"/> WORLD</target></segment>
<segment state="final"><source>done</source><target>fertig</target></segment>
<segment state="translated"><source><sc id="3"/>x<ec startRef="3"/> y</source>\
<target><sc id="3"/>X<ec startRef="3"/> Y</target></segment>
</unit></file></xliff>"""


@pytest.mark.parametrize("content, filled", [(XLIFF_1, XLIFF_1_FILLED), (XLIFF_2, XLIFF_2_FILLED)], ids=["1.2", "2.0"])
def test_xliff_file_gets_its_missing_translations_and_their_states(content, filled):
    document = read_document("xliff", content.encode())
    assert document.fill([text.upper() for text in document.texts]).decode() == filled
    assert read_document("xliff", filled.encode()).texts == []


def test_xliff_2_names_the_language_of_its_new_targets():
    document = read_document("xliff", XLIFF_2.replace(' trgLang="de"', "").encode())
    named = XLIFF_2_FILLED.replace(' trgLang="de"', ' trgLang="pt-BR"')
    assert document.fill([text.upper() for text in document.texts], None, "pt_BR").decode() == named
    document = read_document("xliff", XLIFF_2.encode())
    assert document.fill([text.upper() for text in document.texts], None, "pt_BR").decode() == XLIFF_2_FILLED


HTML_ATTRIBUTES = """\
<html lang=de><meta name=viewport content="two words"><meta property="og:title" content='a title'>
<p title="a &quot;b&quot;">see <img src="a b.png" alt="the dog" class="big one"> <abbr title=unquoted>x</abbr> now</p>
<img alt="no text"><input type="submit" value="go on"><input type=text value="mine" placeholder="name">
<code title="kept">x</code><p translate=no title="kept">kept</p></html>"""


def test_attributes_that_readers_see_are_translated():
    document = read_document("html", HTML_ATTRIBUTES.encode())
    filled = HTML_ATTRIBUTES
    for old in ("a title", "the dog", ">see", ">x</abbr> now", "no text", "go on", '"name"'):
        filled = filled.replace(old, old.upper().replace("ABBR", "abbr"))
    filled = filled.replace('"a &quot;b&quot;"', '"A &quot;B&quot;"')
    assert document.fill([text.upper() for text in document.texts]).decode() == filled
    assert document.fill(document.texts) == HTML_ATTRIBUTES.encode()


@pytest.mark.parametrize("kind, content, translation, filled", [
    ("html", b'<meta charset="iso-8859-1">\xe4', "Ω", b'<meta charset="iso-8859-1">&#937;'),
    ("html", b"<img alt='a'>", "it's <\"&", b"<img alt='it&#39;s &lt;\"&amp;'>"),
    ("xliff", b'<?xml version="1.0" encoding="latin1"?><xliff version="2.0"><segment><source>\xe4</source></segment>'
     b'</xliff>', "Ω", b'<?xml version="1.0" encoding="latin1"?><xliff version="2.0"><segment state="translated">'
     b'<source>\xe4</source><target>&#937;</target></segment></xliff>'),
    ("po", b'msgid ""\nmsgstr "Content-Type: x; charset=latin1\\n"\n\nmsgid "\xe4"\nmsgstr ""\n', "Ω",
     'msgid ""\nmsgstr "Content-Type: x; charset=UTF-8\\n"\n\nmsgid "ä"\nmsgstr "Ω"\n'.encode()),
    ("txt", b"\xef\xbb\xbfa", "ü", b"\xef\xbb\xbf\xc3\xbc"),
    ("txt", "\ufeffa".encode("utf-16-le"), "ü", "\ufeffü".encode("utf-16-le")),
    ("properties", b"a = b", "ü\U0001f600", rb"a = \u00fc\ud83d\ude00"),
    ("properties", "a = ö".encode(), "ü", "a = ü".encode()),
    ("json", b'["a"]', 'ü"', '["ü\\""]'.encode()),
    ("md", b"a b", "1. *b*", rb"1\. \*b\*"),
    ("md", b"see\n\n1986 is", "1986. So", b"1986\\. So\n\n1986\\. So"),
    ("md", b'=== "a"', "- b", b'=== "- b"'),
    ("md", b'[a](b "c")\n\n[a](b (c))', 'x"y(z', rb'[x"y(z](b "x\"y(z")' + b"\n\n" + rb'[x"y(z](b (x"y\(z))'),
    ("srt", b"1\n00:01,0 --> 00:02,0\na\nb", "c d e f", b"1\n00:01,0 --> 00:02,0\nc d\ne f"),
])  # fmt: skip
def test_translation_is_written_as_the_file_is(kind, content, translation, filled):
    document = read_document(kind, content)
    assert document.fill([translation] * len(document.texts)) == filled


UNIT = '<xliff version="1.2"><file><body><trans-unit id="1">{}</trans-unit></body></file></xliff>'
SEGMENT = '<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1">{}</unit></file></xliff>'


@pytest.mark.parametrize("wrap, content", [
    (UNIT, "<source>a</source><target><![CDATA[<b>eins</b>]]></target>"),
    (UNIT, "<source><![CDATA[<b>a</b>]]></source><target><![CDATA[<b>eins</b>]]></target>"),
    (UNIT, '<source>a</source><target state="translated"><![CDATA[eins]]></target>'),
    (UNIT, "<source>next</source><target>→</target>"),
    (UNIT, "<source>one</source><target>1</target>"),
    (UNIT, '<source>a <x id="1"/></source><target><x id="1"/></target>'),
    (UNIT, '<source>a</source><target state="new">eins</target>'),
    (UNIT, '<source>a</source><target state="needs-translation"><![CDATA[eins]]></target>'),
    (UNIT, "<source>a</source><target>a</target>"),
    (SEGMENT, "<segment><source>a</source><target><![CDATA[eins]]></target></segment>"),
    (SEGMENT, "<segment><source>a</source><target>eins</target></segment>"),
    (SEGMENT, '<segment state="initial"><source>a</source><target>eins</target></segment>'),
    (SEGMENT, '<segment state="reviewed"><source>a</source><target><ph id="1"/></target></segment>'),
])  # fmt: skip
def test_translation_in_xliff_is_never_overwritten(wrap, content):
    content = wrap.format(content).encode()
    document = read_document("xliff", content)
    assert document.texts == [] and document.fill([]) == content


@pytest.mark.parametrize("wrap, content, filled", [
    (UNIT, '<source>a</source><target state="new">a</target>',
     '<source>a</source><target state="needs-review-translation" state-qualifier="mt-suggestion">A</target>'),
    (UNIT, '<source>a</source><target><mrk mtype="seg" mid="1"></mrk></target>',
     '<source>a</source><target state="needs-review-translation" state-qualifier="mt-suggestion">A</target>'),
    (UNIT, '<source>a b</source>'
     '<seg-source><mrk mtype="seg" mid="1">a</mrk> <mrk mtype="seg" mid="2">b</mrk></seg-source>'
     '<target><mrk mtype="seg" mid="1">eins</mrk> <mrk mtype="seg" mid="2"/></target>',
     '<source>a b</source>'
     '<seg-source><mrk mtype="seg" mid="1">a</mrk> <mrk mtype="seg" mid="2">b</mrk></seg-source>'
     '<target><mrk mtype="seg" mid="1">eins</mrk> <mrk mtype="seg" mid="2">B</mrk></target>'),
    (SEGMENT, '<segment state="final"><source>a</source></segment>',
     '<segment state="translated"><source>a</source><target>A</target></segment>'),
    (SEGMENT, '<segment><source>a <mrk mtype="protected">b c</mrk> d</source></segment>',
     '<segment state="translated"><source>a <mrk mtype="protected">b c</mrk> d</source>'
     '<target>A <mrk mtype="protected">b c</mrk> D</target></segment>'),
    (SEGMENT, '<segment><source xml:space="preserve">a b\n  c\n</source></segment>',
     '<segment state="translated"><source xml:space="preserve">a b\n  c\n</source>'
     '<target xml:space="preserve">A B\n  C\n</target></segment>'),
    (SEGMENT, '<segment><source>a b\n  c</source></segment>',
     '<segment state="translated"><source>a b\n  c</source><target>A B C</target></segment>'),
    (SEGMENT, '<segment><source>a<ph id="1" disp="&lt;br/&gt;"/>b<ph id="2">&lt;br/&gt;</ph>c</source></segment>',
     '<segment state="translated"><source>a<ph id="1" disp="&lt;br/&gt;"/>b<ph id="2">&lt;br/&gt;</ph>c</source>'
     '<target>A<ph id="1" disp="&lt;br/&gt;"/>B<ph id="2">&lt;br/&gt;</ph>C</target></segment>'),
    (SEGMENT, "<segment><source><![CDATA[not these: #<>()]]></source></segment>",
     '<segment state="translated"><source><![CDATA[not these: #<>()]]></source>'
     "<target><![CDATA[NOT THESE: #<>()]]></target></segment>"),
    (SEGMENT, "<segment><source><![CDATA[hi %s, <b>you</b>]]></source></segment>",
     '<segment state="translated"><source><![CDATA[hi %s, <b>you</b>]]></source>'
     "<target><![CDATA[HI %s, <b>YOU</b>]]></target></segment>"),
    (SEGMENT, "<segment><source><![CDATA[a & b]]></source></segment>",
     '<segment state="translated"><source><![CDATA[a & b]]></source><target><![CDATA[A & B]]></target></segment>'),
    (SEGMENT, "<segment><source><![CDATA[<p>a <b>b</b></p>]]></source><target><![CDATA[]]></target></segment>",
     '<segment state="translated"><source><![CDATA[<p>a <b>b</b></p>]]></source>'
     "<target><![CDATA[<p>A <b>B</b></p>]]></target></segment>"),
])  # fmt: skip
def test_xliff_source_without_a_translation_gets_one(wrap, content, filled):
    document = read_document("xliff", wrap.format(content).encode())
    assert document.fill([text.upper() for text in document.texts]).decode() == wrap.format(filled)


@pytest.mark.parametrize("content", [
    UNIT.replace("<trans-unit", "<trans-unit mq:locked='locked'").format("<source>a</source>"),
    UNIT.replace("<trans-unit", '<trans-unit m:locked="true"').format("<source>a</source>"),
    UNIT.replace("<trans-unit", '<trans-unit m:confirmed="2"').format("<source>a</source><target/>"),
    UNIT.replace("<trans-unit", '<trans-unit approved="yes"').format("<source>a</source>"),
    UNIT.format('<source>a</source><target state="final"/>'),
    UNIT.format('<source>a</source><target state="signed-off"></target>'),
    UNIT.replace("<file", '<file translate="no"').format("<source>a</source>"),
    SEGMENT.format('<segment state="final"><source>a</source><target></target></segment>'),
])  # fmt: skip
def test_finished_or_locked_unit_without_a_translation_stays(content):
    document = read_document("xliff", content.encode())
    assert document.texts == [] and document.fill([]) == content.encode()


def test_unit_may_be_translated_within_what_is_not():
    content = UNIT.replace("<file", '<file translate="no"').replace("<trans-unit", '<trans-unit translate="yes"')
    assert read_document("xliff", content.format("<source>a</source>").encode()).texts == ["a"]


STUDIO = """<xliff version="1.2" xmlns:sdl="x"><file><body><trans-unit id="1"><source>One. Two. Three. Four.</source>\
<seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk> <mrk mtype="seg" mid="3">Three.\
</mrk> <mrk mtype="seg" mid="4">Four.</mrk></seg-source>{}<sdl:seg-defs>{}</sdl:seg-defs></trans-unit></body></file>\
</xliff>"""


@pytest.mark.parametrize("target, states, filled, filled_states", [
    ('<target><mrk mtype="seg" mid="1">Eins.</mrk> <mrk mtype="seg" mid="2"/> <mrk mtype="seg" mid="3"/> '
     '<mrk mtype="seg" mid="4">Vier.</mrk></target>',
     '<sdl:seg id="1" conf="Translated"><sdl:value/></sdl:seg><sdl:seg id="2" locked="true"/><sdl:seg id="3"/>'
     '<sdl:seg id="4" conf="Draft" percent="70"/>',
     '<target><mrk mtype="seg" mid="1">Eins.</mrk> <mrk mtype="seg" mid="2"/> <mrk mtype="seg" mid="3">THREE.</mrk> '
     '<mrk mtype="seg" mid="4">Vier.</mrk></target>',
     '<sdl:seg id="1" conf="Translated"><sdl:value/></sdl:seg><sdl:seg id="2" locked="true"/>'
     '<sdl:seg id="3" conf="Draft" origin="mt"/><sdl:seg id="4" conf="Draft" percent="70"/>'),
    ("", '<sdl:seg id="1"/><sdl:seg id="2" conf="ApprovedSignOff"/><sdl:seg id="3"/><sdl:seg id="4"></sdl:seg>',
     '<target><mrk mtype="seg" mid="1">ONE.</mrk> <mrk mtype="seg" mid="2"></mrk> <mrk mtype="seg" mid="3">THREE.'
     '</mrk> <mrk mtype="seg" mid="4">FOUR.</mrk></target>',
     '<sdl:seg id="1" conf="Draft" origin="mt"/><sdl:seg id="2" conf="ApprovedSignOff"/>'
     '<sdl:seg id="3" conf="Draft" origin="mt"/><sdl:seg id="4" conf="Draft" origin="mt"></sdl:seg>'),
])  # fmt: skip
def test_segments_of_trados_become_drafts_and_finished_ones_stay(target, states, filled, filled_states):
    document = read_document("xliff", STUDIO.format(target, states).encode())
    assert document.fill([text.upper() for text in document.texts]).decode() == STUDIO.format(filled, filled_states)


TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="en-US"/><body>
<tu><tuv xml:lang="en-us"><seg>a <bpt i="1">&lt;b></bpt>big<ept i="1">&lt;/b></ept> dog</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>two</seg></tuv><tuv xml:lang="de"><seg>zwei</seg></tuv></tu>
<tu>
  <tuv lang="en-US"><seg>three</seg></tuv>
</tu>
<tu><tuv xml:lang="fr"><seg>quatre</seg></tuv></tu></body></tmx>"""


@pytest.mark.parametrize("code, name", [("pt_BR", "pt-BR"), (None, "und")])
def test_unit_of_a_translation_memory_gets_a_translation_if_it_has_none(code, name):
    document = read_document("tmx", TMX.encode())
    assert document.texts == ["a big dog", "three"]
    filled = TMX.replace(
        "dog</seg></tuv>",
        f'dog</seg></tuv><tuv xml:lang="{name}"><seg>A <bpt i="1">&lt;b></bpt>BIG<ept i="1">&lt;/b></ept> DOG</seg>'
        "</tuv>",
    ).replace("three</seg></tuv>", f'three</seg></tuv>\n  <tuv xml:lang="{name}"><seg>THREE</seg></tuv>')
    assert document.fill(["A BIG DOG", "THREE"], None, code).decode() == filled
    assert read_document("tmx", filled.encode()).texts == []


def test_end_of_a_cdata_section_within_a_translation_is_divided():
    document = read_document("xliff", SEGMENT.format("<segment><source><![CDATA[a]]></source></segment>").encode())
    assert b"<target><![CDATA[x]]]]><![CDATA[>y]]></target>" in document.fill(["x]]>y"])


CUES = [("srt", "1\n00:01,0 --> 00:02,0\n"), ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n")]


@pytest.mark.parametrize("kind, start", CUES)
@pytest.mark.parametrize("cue, translation, filled", [
    ("one\ntwo\nthree", "eins", "eins"),
    ("one\ntwo\nthree", "eins zwei", "eins\nzwei"),
    ("<i>one\ntwo</i>", "eins", "<i>eins</i>"),
])  # fmt: skip
def test_cue_with_fewer_lines_has_no_empty_one(kind, start, cue, translation, filled):
    document = read_document(kind, f"{start}{cue}\n\n".encode())
    assert document.fill([translation]).decode() == f"{start}{filled}\n\n"


@pytest.mark.parametrize("kind, start", CUES)
@pytest.mark.parametrize("cue, translation, links, filled", [
    ("my father works today\nin the city.", "Mein Vater arbeitet in der Stadt heute.",
     [(0, 0), (1, 1), (2, 2), (3, 6), (4, 3), (5, 4), (6, 5), (7, 7)], "Mein Vater arbeitet in\nder Stadt heute."),
    ("my father works\ntoday.", "Er arbeitet.", [(0, 0), (1, 0), (2, 1), (3, 1)], "Er\narbeitet."),
    ("one\ntwo\nthree four five six seven", "eins zwei drei!", [], "eins\nzwei\ndrei!"),
    ("one\ntwo.", "Eins !", [], "Eins !"),
    ("he says\n\"no\".", "„Nein“, sagt er.", [(0, 5), (1, 4), (3, 1)], "„Nein“, sagt\ner."),
    ("one dog\nruns", "ein-Hund, läuft", [], "ein-Hund,\nläuft"),
    ("♪ one two\n♪ three", "♪ eins zwei ♪ drei", [], "♪ eins zwei\n♪ drei"),
    ("one\ntwo", "你好世界。", [], "你好\n世界。"),
    ("no\n...", "Nein ...", [], "Nein ..."),
])  # fmt: skip
def test_lines_of_a_cue_end_between_words_and_have_their_share_of_them(kind, start, cue, translation, links, filled):
    document = read_document(kind, f"{start}{cue}\n\n".encode())
    assert document.fill([translation], [links]).decode() == f"{start}{filled}\n\n"


@pytest.mark.parametrize("address", ["https://example.com", "a.b@example.com", "www.example.com/a"])
@pytest.mark.parametrize("kind, content", [
    ("txt", "{}\n"), ("html", "<p>{}</p><p><b>({})</b></p><img alt='{}'>"), ("xml", "<a>{}</a>"), ("json", '["{}"]'),
    ("properties", "a={}"), ("strings", '"a" = "{}";'), ("srt", "1\n00:01,0 --> 00:02,0\n{}\n"),
    ("md", "{}\n\n| {} |\n|-|\n| {} |\n"), ("resx", "<root><data><value>{}</value></data></root>"),
    ("po", 'msgid "{}"\nmsgstr ""\n'),
])  # fmt: skip
def test_address_alone_is_no_text(kind, content, address):
    content = content.replace("{}", address).encode()
    document = read_document(kind, content)
    assert document.texts == [] and document.fill([]) == content
    assert read_document("txt", f"see {address}".encode()).texts == [f"see {address}"]


def test_message_with_a_form_twice_is_an_error():
    with pytest.raises(InputError, match=r"Line 4: the message has a second msgstr\[0\]\. Remove one of them\."):
        read_document("po", b'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[0] ""\n')


@pytest.mark.parametrize("kind, content", [("json", r'{"a": "in C:\\new %s"}'), ("properties", r"a = in C:\\new %s")])
def test_escaped_backslash_before_a_letter_is_not_a_line_break(kind, content):
    document = read_document(kind, (content % "here").encode())
    assert document.texts == [r"in C:\new here"]
    assert document.fill([r"in C:\new there"]).decode() == content % "there"


XHTML = """\
<html xmlns="http://www.w3.org/1999/xhtml"><head><style>p { color: red }</style><script>var x = "a b";</script></head>
<body><pre>x y</pre><p title="the dog">hi <b>you</b><br/>there</p></body></html>"""


def test_text_in_cdata_of_xml_is_translated_except_for_scripts():
    content = "<a><b><![CDATA[one & two]]></b><script><![CDATA[no way]]></script>\n<b><![CDATA[<p>three</p>]]></b></a>"
    document = read_document("xml", content.encode())
    assert document.texts == ["one & two", "three"] and document.fill(document.texts) == content.encode()
    filled = content.replace("one & two", "ONE & TWO").replace("three", "THREE")
    assert document.fill(["ONE & TWO", "THREE"]).decode() == filled


def test_xml_with_xhtml_in_it_is_read_by_the_rules_of_html():
    content = '<a><body xmlns="http://www.w3.org/1999/xhtml"><p>one <b>two</b></p></body><script>no</script></a>'
    assert read_document("xml", content.encode()).texts == ["one two"]


@pytest.mark.parametrize("prefix", ["", "h:"])
def test_xhtml_is_read_by_the_rules_of_html(prefix):
    content = XHTML
    if prefix:
        content = re.sub(r"<(/?)(?=[a-z])", r"<\1h:", XHTML).replace("xmlns=", "xmlns:h=")
    filled = content.replace("the dog", "THE DOG").replace(">hi <", ">HI <").replace(">you<", ">YOU<")
    document = read_document("xml", content.encode())
    assert document.texts == ["the dog", "hi you", "there"]
    assert document.fill([text.upper() for text in document.texts]).decode() == filled.replace(">there", ">THERE")


@pytest.mark.parametrize("content, filled", [
    ("see http://x.org/a_b_c now", "SEE http://x.org/a_b_c NOW"),
    ("see it\n(http://x.org).", "SEE IT (http://x.org)."),
    ("*see http://x.org/a_b_*", "*SEE http://x.org/a_b_*"),
    ("see ssh://x.org/a_b_c, or", "SEE ssh://x.org/a_b_c, OR"),
    ("see https://x.org/(x64)/a_b, or", "SEE https://x.org/(x64)/a_b, OR"),
    ("> [!NOTE]\n> be here\n", "> [!NOTE]\n> BE HERE\n"),
    ("> [!note] a title\n> be here\n", "> [!note] A TITLE\n> BE HERE\n"),
    (":::note\nbe here\n:::\n", ":::note\nBE HERE\n:::\n"),
    (":::tip a title\n\nbe here\n\n:::\n", ":::tip A TITLE\n\nBE HERE\n\n:::\n"),
    (":::tip[a *big* title]{icon=x}\nbe here\n:::\n", ":::tip[A *BIG* TITLE]{icon=x}\nBE HERE\n:::\n"),
    ('=== "a tab"\n\n    be here\n', '=== "A TAB"\n\n    be here\n'),
    ('!!! be "here" now\n', '!!! BE "HERE" NOW\n'),
    ('!!! note "a title"\n    be here\n', '!!! note "A TITLE"\n    BE HERE\n'),
    ("!!! be here !!!\n", "!!! BE HERE !!!\n"),
    ("- [ ] one\n- [x] two\n- [x](y) three\n", "- [ ] ONE\n- [x] TWO\n- [X](y) THREE\n"),
    ("so $x_i$ is or $a*b*c$ here", "SO $x_i$ IS OR $a*b*c$ HERE"),
    ("it is $5 and $6 now", "IT IS $5 AND $6 NOW"),
    ("so\n$$\na_b = c\n$$\nis", "SO\n$$\na_b = c\n$$\nIS"),
    ("![the dog](a.png)", "![THE DOG](a.png)"),
    ("see [![the dog](a.png)](b) now", "SEE [![THE DOG](a.png)](b) NOW"),
    ("![the dog] ![a *b*](c) ![the cat][c]\n\n[the dog]: a\n[c]: b\n",
     "![the dog] ![a *b*](c) ![THE CAT][c]\n\n[the dog]: a\n[c]: b\n"),
    ("see [it](u \"the dog\"), [it](<u v> 'a \\'cat\\'') [it](u  (so)) now",
     "SEE [IT](u \"THE DOG\"), [IT](<u v> 'A \\'CAT\\'') [IT](u  (SO)) NOW"),
    ('![the dog](u "a &amp; b") ![a *b*](u "c") [d]("e")', '![THE DOG](u "A &amp; B") ![a *b*](u "C") [D]("e")'),
    ("see [it][1]\n\n> [1]: <u> (the dog)\n[2]: u\n  'a cat'\n",
     "SEE [IT][1]\n\n> [1]: <u> (THE DOG)\n[2]: u\n  'A CAT'\n"),
    ('[1]: u "one"\n[1]: u "two"\nthree', '[1]: u "ONE"\n[1]: u "two"\nTHREE'),
    ("|a|\n|-|\n|one<br>two|\n", "|A|\n|-|\n|ONE<br>TWO|\n"),
])  # fmt: skip
def test_what_readers_of_markdown_do_not_see_stays(content, filled):
    document = read_document("md", content.encode())
    assert document.fill(document.texts) == content.encode()
    assert document.fill([text.upper() for text in document.texts]).decode() == filled


@pytest.mark.parametrize("content, filled", [
    ("---\ntitle: one two\nslug: one-two\n---\n", "---\ntitle: ONE TWO\nslug: one-two\n---\n"),
    ('---\ndescription: "say \\"hi\\" {{ x }} now" \n---\n', '---\ndescription: "SAY \\"HI\\" {{ x }} NOW" \n---\n'),
    ("---\nsubtitle: 'it''s me'\n---\n", "---\nsubtitle: 'IT''S ME'\n---\n"),
    ("---\nsummary: >\n  one\nexcerpt: a\n  b\ntitle: c # d\n---\n", None),
    ("+++\r\ntitle = \"one\"\r\nsummary = 'two'\r\n+++\r\n", "+++\r\ntitle = \"ONE\"\r\nsummary = 'two'\r\n+++\r\n"),
    ('[a](http://x.y "say \\"hi\\"")', '[A](http://x.y "SAY \\"HI\\"")'),
    ("![a](b.png 'one')", "![A](b.png 'ONE')"),
])  # fmt: skip
def test_titles_of_markdown_are_translated(content, filled):
    document = read_document("md", content.encode())
    assert document.fill(document.texts) == content.encode()
    assert document.fill([text.upper() for text in document.texts]).decode() == (filled or content)


@pytest.mark.parametrize("title, filled", [("eins: zwei", '"eins: zwei"'), ("#1", '"#1"'), ("a - b", "a - b")])
def test_title_of_front_matter_is_quoted_if_it_must_be(title, filled):
    assert read_document("md", b"---\ntitle: one\n---\n").fill([title]).decode() == f"---\ntitle: {filled}\n---\n"


@pytest.mark.parametrize("kind, content, filled", [
    ("vtt", "WEBVTT\n\n00:05.000 --> 00:06.000\n \nso be it\n", "WEBVTT\n\n00:05.000 --> 00:06.000\n \nSO BE IT\n"),
    ("vtt", "WEBVTT\n\n0:0:1.0 --> 0:0:2\none\n\nno cue\n", "WEBVTT\n\n0:0:1.0 --> 0:0:2\nONE\n\nno cue\n"),
    ("vtt", "WEBVTT\n\nNOTE nothing\n", "WEBVTT\n\nNOTE nothing\n"),
    ("srt", "1\n00:01,0 --> 00:02,0\none\n\ntwo\n\n2\n00:03,0 --> 00:04,0\nthree\n",
     "1\n00:01,0 --> 00:02,0\nONE\n\nTWO\n\n2\n00:03,0 --> 00:04,0\nTHREE\n"),
    ("srt", "1\n00:01,0 --> 00:02,0\none<br>two\\Nthree\n", "1\n00:01,0 --> 00:02,0\nONE<br>TWO\\NTHREE\n"),
])  # fmt: skip
def test_every_line_of_a_cue_is_translated(kind, content, filled):
    document = read_document(kind, content.encode())
    assert document.fill(document.texts) == content.encode()
    assert document.fill([text.upper() for text in document.texts]).decode() == filled


def test_dash_of_a_speaker_is_not_in_the_text():
    document = read_document("srt", "1\n00:01,0 --> 00:02,0\n- hi!\n<i>– you?</i>\n-5 it is\n".encode())
    assert document.texts == ["hi!", "you? -5 it is"]
    assert document.fill(["HI!", "YOU? -5 IT IS"]).decode().endswith("\n- HI!\n<i>– YOU?</i>\n-5 IT IS\n")


@pytest.mark.parametrize("kind, content, message", [
    ("md", b"%PDF-1.4 text", "It is a PDF, not md."),
    ("txt", b"PK\x03\x04text", "It is an archive, such as an office file, not txt."),
    ("txt", b"one\nt\0wo", "Line 2: there is a null byte"),
])  # fmt: skip
def test_what_is_no_text_is_an_error(kind, content, message):
    with pytest.raises(InputError, match=message):
        read_document(kind, content)


def test_subtitles_in_a_text_file_are_read_as_such():
    document = read_document("txt", b"1\r\n00:01,0 --> 00:02,0\r\n- one\r\ntwo\r\n")
    assert document.texts == ["one two"]


def test_line_that_is_not_of_apples_strings_is_an_error():
    with pytest.raises(InputError, match='Line 2: b: c is neither a comment nor "key" = "value";. Correct it.'):
        read_document("strings", b'"a" = "b";\nb: c\n')
