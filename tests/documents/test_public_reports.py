"""Faults that people reported of tools for localization, each by its tracker and number, with what is right."""

import pytest

from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError

from .test_office import SPACE, A, W, packed, read_member, run

UNIT = '<xliff version="1.2"><file><body><trans-unit id="1">{}</trans-unit></body></file></xliff>'
SEGMENT = '<xliff version="2.0" srcLang="en" trgLang="de"><file><unit><segment{}</segment></unit></file></xliff>'
ANDROID = '<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">{}</resources>'
CUE = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"
STATE = 'state="needs-review-translation" state-qualifier="mt-suggestion">'
TARGET, SPACED = f"<target {STATE}", f'<target xml:space="preserve" {STATE}'

# Content of a file, its texts, and the file with each text in upper case.
XLIFF = {
    "locize/xliff#30: a target in CDATA counts as empty": (
        UNIT.format("<source>submit</source><target><![CDATA[Validate & Submit]]></target>"), [], None),
    "matecat/MateCat#3106: a target in CDATA of XLIFF 2 is not seen": (
        SEGMENT.format("><source><![CDATA[News]]></source><target><![CDATA[Nouvelles]]></target>"), [], None),
    "WeblateOrg/weblate#5026: line breaks and tabs are lost in a new target": (
        UNIT.format('<source xml:space="preserve">one\n\ttwo</source>'), ["one", "two"],
        UNIT.format(f'<source xml:space="preserve">one\n\ttwo</source>{SPACED}ONE\n\tTWO</target>')),
    "locize/xliff#55: the space between two inline elements is lost": (
        UNIT.format('<source><x id="A"/> <x id="B"/> files</source>'), ["files"],
        UNIT.format(f'<source><x id="A"/> <x id="B"/> files</source>{TARGET}<x id="A"/> <x id="B"/> FILES</target>')),
    "ni/nimble#1840: the same before a sign": (
        UNIT.format('<source><x id="A"/> <x id="B"/> + 1 other</source>'), ["+ 1 other"],
        UNIT.format(
            f'<source><x id="A"/> <x id="B"/> + 1 other</source>{TARGET}<x id="A"/> <x id="B"/> + 1 OTHER</target>'
        )),
    "translate/virtaal#3221: two spaces of the source become one": (
        UNIT.format("<source>a  b</source><target></target>"), ["a b"],
        UNIT.format(f"<source>a  b</source>{TARGET}A B</target>")),
    "translate/virtaal#2088: a no-break space at the end is lost": (
        UNIT.format("<source>a b:\xa0</source>"), ["a b:"],
        UNIT.format(f"<source>a b:\xa0</source>{TARGET}A B:\xa0</target>")),
    "omegat-org/omegat#805: what is final or not to be translated is translated": (
        UNIT.format(
            '<source>a</source><target state="final">eins</target></trans-unit>'
            '<trans-unit id="2" translate="no"><source>b</source>'
        ), [], None),
    "matecat/MateCat#52: states of the segments of Trados are lost": (
        UNIT.format(
            '<source>a b</source><seg-source><mrk mtype="seg" mid="1">a</mrk><mrk mtype="seg" mid="2">b</mrk>'
            '</seg-source><target><mrk mtype="seg" mid="1">eins</mrk><mrk mtype="seg" mid="2"/></target>'
            '<sdl:seg-defs><sdl:seg id="1" conf="Draft" percent="75"/><sdl:seg id="2" locked="true"/></sdl:seg-defs>'
        ).replace("<xliff", '<xliff xmlns:sdl="x"'), [], None),
    "vslavik/poedit#866: a backslash in XLIFF is read as an escape": (
        UNIT.format(r"<source>open locale\fr now</source>"), [r"open locale\fr now"],
        UNIT.format(rf"<source>open locale\fr now</source>{TARGET}OPEN LOCALE\FR NOW</target>")),
    "simonech/XliffLib#19: an empty target is an error": (
        UNIT.format("<source>a</source><target/>"), ["a"], UNIT.format(f"<source>a</source>{TARGET}A</target>")),
    "angular/angular#18072: a source without text gets an empty target": (
        UNIT.format('<source><x id="A"/></source>'), [], None),
    "pimcore/pimcore#10588: escaped tags become tags": (
        UNIT.format("<source>this is &lt;strong&gt;bold&lt;/strong&gt; text</source>"), ["this is bold text"],
        UNIT.format(
            "<source>this is &lt;strong&gt;bold&lt;/strong&gt; text</source>"
            f"{TARGET}THIS IS &lt;strong&gt;BOLD&lt;/strong&gt; TEXT</target>"
        )),
    "microsoft/XLIFF2-Object-Model#4: space is added next to an inline element": (
        SEGMENT.format('><source><pc id="1">one</pc></source>'), ["one"],
        SEGMENT.format(
            ' state="translated"><source><pc id="1">one</pc></source><target><pc id="1">ONE</pc></target>'
        )),
    "maxprograms-com/OpenXLIFF#1: space around a sentence goes to the translator": (
        UNIT.format('<source xml:space="preserve">   One.</source>'), ["One."],
        UNIT.format(f'<source xml:space="preserve">   One.</source>{SPACED}   ONE.</target>')),
    "SAP/software-documentation-data-set-for-machine-translation#11: a protected part is translated": (
        UNIT.format('<source>press <mrk mtype="protected">Save As</mrk> now</source>'), ["press now"],
        UNIT.format(
            '<source>press <mrk mtype="protected">Save As</mrk> now</source>'
            f'{TARGET}PRESS <mrk mtype="protected">Save As</mrk> NOW</target>'
        )),
}  # fmt: skip
PO = {
    r"vslavik/poedit#730: \\a becomes \a": (
        'msgid "see \\\\a now"\nmsgstr ""\n', [r"see \a now"], 'msgid "see \\\\a now"\nmsgstr "SEE \\\\A NOW"\n'),
    "translate/translate#496: a backslash is lost": (
        'msgid "Version\\\\: {new}"\nmsgstr ""\n', [r"Version\:"],
        'msgid "Version\\\\: {new}"\nmsgstr "VERSION\\\\: {new}"\n'),
    r"turquoiseowl/i18n#332: \\r\\n becomes \r\n": (
        'msgid "you leave.\\\\r\\\\nContinue?"\nmsgstr ""\n', ["you leave.", "Continue?"],
        'msgid "you leave.\\\\r\\\\nContinue?"\nmsgstr "YOU LEAVE.\\\\r\\\\nCONTINUE?"\n'),
    "adams85/po#6: a line ends within an escape": (
        'msgid ""\n"in data\\\\export\\\\"\n"\\\\new names\\n"\n"here"\nmsgstr ""\n',
        ["in data\\export\\\\new names", "here"],
        'msgid ""\n"in data\\\\export\\\\"\n"\\\\new names\\n"\n"here"\n'
        'msgstr ""\n"IN DATA\\\\EXPORT\\\\\\\\NEW NAMES\\n"\n"HERE"\n'),
    "translate/translate#1611: a comment ends with a backslash": (
        '#. the mark \\\nmsgid "a"\nmsgstr ""\n', ["a"], '#. the mark \\\nmsgid "a"\nmsgstr "A"\n'),
    "izimobil/polib#91: a byte order mark": ('\ufeffmsgid "a"\nmsgstr ""\n', ["a"], '\ufeffmsgid "a"\nmsgstr "A"\n'),
    "izimobil/polib#35: U+0085 ends a line": (
        'msgid "a\x85b"\nmsgstr ""\n', ["a\x85b"], 'msgid "a\x85b"\nmsgstr "A\x85B"\n'),
    "i18next/i18next-gettext-converter#35: a line break at the end": (
        'msgid "my text.\\n"\nmsgstr ""\n', ["my text."], 'msgid "my text.\\n"\nmsgstr "MY TEXT.\\n"\n'),
    "python-babel/babel#1154: a template with nplurals=INTEGER": (
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=CHARSET\\n"\n"Plural-Forms: nplurals=INTEGER;\\n"\n\n'
        'msgid "one"\nmsgid_plural "many"\nmsgstr[0] ""\nmsgstr[1] ""\n', ["one", "many"],
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=CHARSET\\n"\n"Plural-Forms: nplurals=INTEGER;\\n"\n\n'
        'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "ONE"\nmsgstr[1] "MANY"\n'),
    "translate/virtaal#1343: quotation marks within a tag": (
        'msgid "<a color=\\"green\\">one</a> is"\nmsgstr ""\n', ["one is"],
        'msgid "<a color=\\"green\\">one</a> is"\nmsgstr "<a color=\\"green\\">ONE</a> IS"\n'),
    "WeblateOrg/weblate#2374: names in braces are translated": (
        'msgid "{count} users of {platform}"\nmsgstr ""\n', ["users of"],
        'msgid "{count} users of {platform}"\nmsgstr "{count} USERS OF {platform}"\n'),
}  # fmt: skip
PROPERTIES = {
    "translate/translate#1881: a space at the start loses its backslash": ("a=\\ files\n", ["files"], "a=\\ FILES\n"),
    "translate/translate#939: a space at the end is lost": (
        "a=next stitch ;next {0} stitches \n", ["next stitch ;next stitches"], "a=NEXT STITCH ;NEXT {0} STITCHES \n"),
    "translate/translate#162: an escape at the end is lost": ("a=it failed\\n\n", ["it failed"], "a=IT FAILED\\n\n"),
    r"translate/translate#1044: \n and \r are escaped twice": ("a=one\\n\\rtwo\n", ["one", "two"], "a=ONE\\n\\rTWO\n"),
    "jutzig/jabylon#65: a choice": (
        "a={0} {0,choice,0#days|1#day|1<days}\n", ["days", "day", "days"], "a={0} {0,choice,0#DAYS|1#DAY|1<DAYS}\n"),
}  # fmt: skip
JSON = {
    "UiPath/apollo-ui#995: the keyword of a plural is translated": (
        '{"a": "{count, plural, one {ran # time} other {ran # times}}"}', ["ran time", "ran times"],
        '{"a": "{count, plural, one {RAN # TIME} other {RAN # TIMES}}"}'),
    "sxtfv/flutter_arb_translator#4: a name within a plural is translated": (
        '{"a": "{num, plural, one{1 adult} other{{num} adults}}"}', ["1 adult", "adults"],
        '{"a": "{num, plural, one{1 ADULT} other{{num} ADULTS}}"}'),
    "sxtfv/flutter_arb_translator#10: a placeholder at the end is lost": (
        '{"a": "welcome to {app}", "b": "welcome to {app}!"}', ["welcome to", "welcome to!"],
        '{"a": "WELCOME TO {app}", "b": "WELCOME TO {app}!"}'),
    "flutter/flutter#110329: a placeholder and a plural in one message": (
        r'{"a": "\"{title}\" is next. Wait {n, plural, one{a day} other{{n} days}} more."}',
        ["is next. Wait", "a day", "days", "more."],
        r'{"a": "\"{title}\" IS NEXT. WAIT {n, plural, one{A DAY} other{{n} DAYS}} MORE."}'),
    "leancodepl/arb_translate#3: what describes a message is lost": (
        '{"a": "my score: {n}", "@a": {"placeholders": {"n": {"example": "the score"}}}}', ["my score:"],
        '{"a": "MY SCORE: {n}", "@a": {"placeholders": {"n": {"example": "the score"}}}}'),
    "WeblateOrg/weblate#2886: $NAME$ of a browser's extension": (
        '{"a": {"message": "hi $USER$", "description": "a note",'
        ' "placeholders": {"user": {"content": "$1", "example": "the name"}}}}', ["hi"],
        '{"a": {"message": "HI $USER$", "description": "a note",'
        ' "placeholders": {"user": {"content": "$1", "example": "the name"}}}}'),
    "leolabs/json-autotranslate#51: __name__ is translated": (
        '{"a": "tell all <strong>__count__</strong> people of <b>@__mention__</b>"}', ["tell all people of"],
        '{"a": "TELL ALL <strong>__count__</strong> PEOPLE OF <b>@__mention__</b>"}'),
    "while1618/i18n-auto-translation#2: an escaped quotation mark at the end": (
        r'{"a": "as \"{{ tags }}\"", "b": "page {{ current_page }}"}', ["as", "page"],
        r'{"a": "AS \"{{ tags }}\"", "b": "PAGE {{ current_page }}"}'),
    "mozilla/pontoon#2181: spaces within braces change": (
        '["({ $part } of { $total })"]', ["( of)"], '["({ $part } OF { $total })"]'),
    "marhali/easy-i18n#322: line breaks in arrays are lost": (
        r'{"a": [{"b": "be friendly.\nhave fun"}]}', ["be friendly.", "have fun"],
        r'{"a": [{"b": "BE FRIENDLY.\nHAVE FUN"}]}'),
    "mattermost/mattermost-plugin-playbooks#957: =0 and # of a plural": (
        '["{n, plural, =0 {no runs} =1 {# run} other {# runs}}"]', ["no runs", "run", "runs"],
        '["{n, plural, =0 {NO RUNS} =1 {# RUN} other {# RUNS}}"]'),
}  # fmt: skip
XML = {
    "WeblateOrg/weblate#1211: CDATA is lost": (
        ANDROID.format('<string name="a"><![CDATA[one<br>two]]></string>'), ["one", "two"],
        ANDROID.format('<string name="a"><![CDATA[ONE<br>TWO]]></string>')),
    "translate/translate#4320: escapes in CDATA": (
        ANDROID.format(r'<string name="a"><![CDATA[<p style=\"x\">it\'s\n<b>here</b></p>]]></string>'),
        ["it's", "here"],
        ANDROID.format(r'<string name="a"><![CDATA[<p style=\"x\">IT\'S\n<b>HERE</b></p>]]></string>')),
    "FoedusProgramme/Gramophone#1026: entities in CDATA": (
        ANDROID.format('<string name="a"><![CDATA[you & me]]></string>'), ["you & me"],
        ANDROID.format('<string name="a"><![CDATA[YOU & ME]]></string>')),
    "WeblateOrg/weblate#517: escapes on several lines": (
        ANDROID.format('<string name="a">it\\\'s free\\n\n    and \\"good\\"</string>'), ["it's free", 'and "good"'],
        ANDROID.format('<string name="a">IT\\\'S FREE\\n\n    AND \\"GOOD\\"</string>')),
    "WeblateOrg/weblate#2988: placeholders of plurals lose their elements": (
        ANDROID.format(
            '<plurals name="a"><item quantity="other">+<xliff:g id="n">%d</xliff:g> events</item></plurals>'
        ), ["events"],
        ANDROID.format(
            '<plurals name="a"><item quantity="other">+<xliff:g id="n">%d</xliff:g> EVENTS</item></plurals>'
        )),
    "iBotPeaches/Apktool#2601: elements of plurals are escaped": (
        ANDROID.format(
            '<plurals name="a"><item quantity="one"><annotation x="y">%d</annotation> point</item></plurals>'
        ), ["point"],
        ANDROID.format(
            '<plurals name="a"><item quantity="one"><annotation x="y">%d</annotation> POINT</item></plurals>'
        )),
}  # fmt: skip
STRINGS = {
    "AckeeCZ/ACKLocalization#22: quotation marks in keys": (
        r'"Say \"hi\"" = "say \"hi\"";', ['say "hi"'], r'"Say \"hi\"" = "SAY \"HI\"";'),
    "WeblateOrg/weblate#10290: comments": ('/* First. */\n"a" = "hi!";\n', ["hi!"], '/* First. */\n"a" = "HI!";\n'),
}  # fmt: skip
RESX = {
    "fmuecke/XliffParser#3: a space alone is lost": (
        '<root><data name="a" xml:space="preserve"><value> </value></data></root>', [], None),
    "dotnet/installer#865: a space alone in CDATA is lost": (
        '<root><data name="a" xml:space="preserve"><value><![CDATA[ ]]></value></data></root>', [], None),
}  # fmt: skip
MD = {
    "mquinson/po4a#496: a table becomes a paragraph": (
        "| one | two |\n| --- | --- |\n| a | b |\n", ["one", "two", "a", "b"],
        "| ONE | TWO |\n| --- | --- |\n| A | B |\n"),
    "mquinson/po4a#443: a byte order mark before front matter": (
        "\ufeff---\nslug: a b\n---\nhere\n", ["here"], "\ufeff---\nslug: a b\n---\nHERE\n"),
    "mquinson/po4a#422: the addresses of links": (
        "see [this]\n\n[this]: https://x.y/a\n", ["see this"], "SEE [THIS][this]\n\n[this]: https://x.y/a\n"),
    "google/mdbook-i18n-helpers#326: the mark of a note is escaped": (
        "> [!NOTE]\n> be here\n", ["be here"], "> [!NOTE]\n> BE HERE\n"),
    "facebook/docusaurus#3526: the kind of a note is translated": (
        ":::caution be careful\n\nso be it\n\n:::\n", ["be careful", "so be it"],
        ":::caution BE CAREFUL\n\nSO BE IT\n\n:::\n"),
    "privacyguides/privacyguides.org#2224: the title of a note": (
        '!!! warning "be careful"\n\n??? downloads "all of it"\n', ["be careful", "all of it"],
        '!!! warning "BE CAREFUL"\n\n??? downloads "ALL OF IT"\n'),
    "mondeja/mdpo#147: an address gets a space": (
        "[a name](https://x.y/with-a-very-very-long-address-that-is-longer-than-a-line-of-a-catalog-is)\n", ["a name"],
        "[A NAME](https://x.y/with-a-very-very-long-address-that-is-longer-than-a-line-of-a-catalog-is)\n"),
    "mondeja/mdpo#155: the same in an item of a quotation": (
        "> - [a name](https://x.y/a-b)\n", ["a name"], "> - [A NAME](https://x.y/a-b)\n"),
    "mondeja/mdpo#201: a link that is found by code": (
        "this is a [`link`] and [x-*y*]\n\n[`link`]: a\n[x-*y*]: b\n", ["this is a and x-y"],
        "THIS IS A [`link`][`link`] AND [*X-Y*][x-*y*]\n\n[`link`]: a\n[x-*y*]: b\n"),
    "mondeja/mdpo#111: a table in an item": (
        "- one\n   + two\n\n     | a | b |\n     | - | - |\n     | c | d |\n", ["one", "two", "a", "b", "c", "d"],
        "- ONE\n   + TWO\n\n     | A | B |\n     | - | - |\n     | C | D |\n"),
    "mondeja/mdpo#246: a block of HTML is lost": (
        'one\n\n<div align="center">\n  <h1>two</h1>\n</div>\n\nthree\n', ["one", "two", "three"],
        'ONE\n\n<div align="center">\n  <h1>TWO</h1>\n</div>\n\nTHREE\n'),
    "translate/translate#6165: a paragraph with a link stays": (
        "the [Alliance](https://x.org) site\n", ["the Alliance site"], "THE [ALLIANCE](https://x.org) SITE\n"),
    "translate/translate#5659: front matter becomes text": (
        "---\ntitle: one\ntags: [x]\n---\ntwo\n", ["one", "two"], "---\ntitle: ONE\ntags: [x]\n---\nTWO\n"),
    "AmintaCCCP/GithubStarsManager#130: code between ~~~": (
        "~~~sh\nls x\n~~~\nso\n", ["so"], "~~~sh\nls x\n~~~\nSO\n"),
    "Metaculus/metaculus#5033: a link around a tag is lost": (
        "a [<u>big one</u>](https://x.y/z) won\n", ["a big one won"], "A [<u>BIG ONE</u>](https://x.y/z) WON\n"),
    "3ru/gpt-translate#85: the path of an image changes": (
        "![a title](/assets/cat.png)\n", ["a title"], "![A TITLE](/assets/cat.png)\n"),
    "mondeja/mdpo#114: a heading in an item": ("- ## one\n- two\n", ["one", "two"], "- ## ONE\n- TWO\n"),
    "Azure/co-op-translator#509: a dot in an address": (
        "[a](https://x.y/?WT.mc_id=b_c), <https://x.y/?WT.mc_id=1> or https://x.y/?WT.mc_id=2\n", ["a, or"],
        "[A](https://x.y/?WT.mc_id=b_c), <https://x.y/?WT.mc_id=1> OR https://x.y/?WT.mc_id=2\n"),
}  # fmt: skip
HTML = {
    "LibreTranslate/LibreTranslate#288: lines of a paragraph are sentences": (
        "<p>\n\t\tone line\n\t\tand two\n\t</p>", ["one line and two"], "<p>\n\t\tONE LINE AND TWO\n\t</p>"),
    "LibreTranslate/LibreTranslate#806: nested tags are sentences": (
        '<a href="#"><em><span>see all of</span></em> <em><span>it here!</span></em></a>', ["see all of it here!"],
        '<a href="#"><em><span>SEE ALL OF</span></em> <em><span>IT HERE!</span></em></a>'),
    "LibreTranslate/LibreTranslate#552: comments are lost": (
        "<!-- wp:heading --><h2>one</h2><!-- /wp:heading -->", ["one"],
        "<!-- wp:heading --><h2>ONE</h2><!-- /wp:heading -->"),
    "translate/translate#3768: tags at both ends are cut": (
        '<p><a href="x">one</a> or not. <a href="y">two</a></p>', ["one or not. two"],
        '<p><a href="x">ONE</a> OR NOT. <a href="y">TWO</a></p>'),
    "translate/translate#1796: text with entities stays": (
        "<p>you &amp; me &copy; us</p>", ["you & me us"], "<p>YOU &amp; ME &copy; US</p>"),
    "translate/translate#1130: text next to a link is left out": (
        '<p>hi<br><br></p>\n<a href="x">one</a><br>two<br>', ["hi", "one", "two"],
        '<p>HI<br><br></p>\n<a href="x">ONE</a><br>TWO<br>'),
    "MozillaFoundation/donate-wagtail#586: a paragraph in an inline tag": (
        "<i>one <p>two</p></i>", ["one", "two"], "<i>ONE <p>TWO</p></i>"),
    "LibreTranslate/LibreTranslate#144: tags around one word are translated": ("<p>hi</p>", ["hi"], "<p>HI</p>"),
    "LibreTranslate/LibreTranslate#636: attributes lose their quotation marks": (
        'hi <a href="" onclick="go();">test 1</a> ready', ["hi test 1 ready"],
        'HI <a href="" onclick="go();">TEST 1</a> READY'),
    "browsermt/bergamot-translator#314: texts in attributes": (
        '<p title="a tip"><img src="a.png" alt="a dog"></p>', ["a tip", "a dog"],
        '<p title="A TIP"><img src="a.png" alt="A DOG"></p>'),
    "t2ym/i18n-behavior#25: the title of an input": (
        '<input title="a tip" value="{{name}}">', ["a tip"], '<input title="A TIP" value="{{name}}">'),
}  # fmt: skip
SRT = {
    "sinedie/SRT-DeepL-Translator#19: a cue with tags is not translated": (
        CUE.format("<i>at the start\nof it.</i>"), ["at the start of it."], CUE.format("<i>AT THE START\nOF IT.</i>")),
    "DeepL/deepl-python#146: lines are joined, tags added": (
        CUE.format("in progress,\nhere it goes.</i>"), ["in progress, here it goes."],
        CUE.format("IN PROGRESS,\nHERE IT GOES.</i>")),
    "sinedie/SRT-DeepL-Translator#5: lines are joined without a space": (
        CUE.format("one\ntwo"), ["one two"], CUE.format("ONE\nTWO")),
    "aws-samples/amazon-translate-video-subtitles-captions-translation#5: only the first line is kept": (
        CUE.format("one two\nthree four\nfive six"), ["one two three four five six"],
        CUE.format("ONE TWO\nTHREE FOUR\nFIVE SIX")),
    "SubtitleEdit/subtitleedit#7635: lines are added at the end": (
        CUE.format("one")[:-1], ["one"], CUE.format("ONE")[:-1]),
    r"rockbenben/subtitle-translator#58: \N and styles are lost": (
        CUE.format(r"{\an8}air mail:\NEngland\N{\c&H464687&}London"), ["air mail: England London"],
        CUE.format(r"{\an8}AIR MAIL:\NENGLAND\N{\c&H464687&}LONDON")),
}  # fmt: skip
VTT = {
    "nilaoda/N_m3u8DL-RE#296: a cue with several lines in a tag is lost": (
        "WEBVTT\n\nSTYLE\n::cue(.a) {\n  color: red;\n}\n\n3af\n00:01.240 --> 00:06.360 align:left\n<c.a>this night\n"
        "is it.</c>\n", ["this night is it."],
        "WEBVTT\n\nSTYLE\n::cue(.a) {\n  color: red;\n}\n\n3af\n00:01.240 --> 00:06.360 align:left\n<c.a>THIS NIGHT\n"
        "IS IT.</c>\n"),
    "vevv/subby#7: headers and classes": (
        "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n\n1\n00:02.628 --> 00:04.546 line:85%,start\n"
        "<c.italic>welcome here.</c>\n", ["welcome here."],
        "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n\n1\n00:02.628 --> 00:04.546 line:85%,start\n"
        "<c.italic>WELCOME HERE.</c>\n"),
}  # fmt: skip
REPORTS = {
    "xliff": XLIFF, "po": PO, "properties": PROPERTIES, "json": JSON, "xml": XML, "strings": STRINGS, "resx": RESX,
    "md": MD, "html": HTML, "srt": SRT, "vtt": VTT,
}  # fmt: skip


@pytest.mark.parametrize(
    "kind, content, texts, filled",
    [
        pytest.param(kind, *report, id=f"{kind} {name}")
        for kind, reports in REPORTS.items()
        for name, report in reports.items()
    ],
)
def test_what_was_reported_is_right(kind, content, texts, filled):
    document = read_document(kind, content.encode())
    assert document.texts == texts
    assert document.fill([text.upper() for text in texts]).decode() == (filled or content)
    if kind in ("xliff", "po"):
        assert read_document(kind, (filled or content).encode()).texts == []
    else:
        assert document.fill(texts) == content.encode()


@pytest.mark.parametrize("kind, content, translation, filled", [
    pytest.param("properties", "a=a plan for {0}", "un plan d'or de {0}", "a=un plan d''or de {0}",
                 id="portfolio-performance/portfolio#3814: an apostrophe hides the argument after it"),
    pytest.param("xml", ANDROID.format('<string name="a">this is <b>big</b></string>'), "c'est grand",
                 ANDROID.format(r'<string name="a">c\'est <b>grand</b></string>'),
                 id="WeblateOrg/weblate#422: an apostrophe next to markup is not escaped"),
    pytest.param("xml", ANDROID.format('<string name="a">the name</string>'), "l'un",
                 ANDROID.format(r'<string name="a">l\'un</string>'),
                 id="Airsaid/AndroidLocalizePlugin#54: a new apostrophe is not escaped"),
    pytest.param("xml", ANDROID.format('<string name="a"><![CDATA[say “hi”]]></string>'), 'sag "hallo"',
                 ANDROID.format(r'<string name="a"><![CDATA[sag \"hallo\"]]></string>'),
                 id="mozilla/pontoon#3628: a new quotation mark is not escaped"),
])  # fmt: skip
def test_new_sign_is_escaped(kind, content, translation, filled):
    document = read_document(kind, content.encode())
    assert document.fill([translation.replace(" {0}", "")]).decode() == filled


def test_unescaped_quotation_mark_of_a_catalog_is_an_error():  # izimobil/polib#27
    with pytest.raises(InputError, match="Line 2: "):
        read_document("po", b'msgid "a"\nmsgstr "say "hi""\n')


CHART = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
PAGE = f"<w:r><w:instrText> PAGE </w:instrText></w:r>{FIELD.format('separate')}{run('23')}{FIELD.format('end')}"
# A part with places for its texts, the texts between its markup, and those that are translated.
OFFICE = {
    "MicrosoftTranslator/DocumentTranslator-Legacy#79: text boxes": (
        "word/document.xml",
        f"<w:document {W}><w:p>{run('{}')}<w:r><w:pict><w:txbxContent><w:p>{run('{}')}</w:p></w:txbxContent></w:pict>"
        "</w:r></w:p></w:document>", ["one", "two"], ["one", "two"]),
    "MicrosoftTranslator/DocumentTranslator-Legacy#133: footnotes": (
        "word/footnotes.xml", f"<w:footnotes {W}><w:footnote><w:p>{run('{}')}</w:p></w:footnote></w:footnotes>",
        ["a note"], ["a note"]),
    "MicrosoftTranslator/DocumentTranslator-Legacy#78: page numbers become text": (
        "word/footer1.xml", f"<w:ftr {W}><w:p>{run('{}', '', SPACE)}{FIELD.format('begin')}{PAGE}</w:p></w:ftr>",
        ["page "], ["page"]),
    "MicrosoftTranslator/DocumentTranslation#102: numbers of figures become text": (
        "word/document.xml",
        f'<w:document {W}><w:p>{run("{}", "", SPACE)}<w:fldSimple w:instr=" SEQ Figure ">{run("1")}</w:fldSimple>'
        f"{run('{}')}</w:p></w:document>", ["figure ", ": a dog"], ["figure: a dog"]),
    "docling-project/docling#3152: text with tracked changes is lost": (
        "word/document.xml",
        f"<w:document {W}><w:p>{run('{}', '', SPACE)}<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        f"<w:ins>{run('{}')}</w:ins></w:p></w:document>", ["since ", "new"], ["since new"]),
    "MicrosoftTranslator/DocumentTranslator-Legacy#28: notes of a speaker": (
        "ppt/notesSlides/notesSlide1.xml", f"<p:notes {A}><a:p><a:r><a:t>{{}}</a:t></a:r></a:p></p:notes>",
        ["say it"], ["say it"]),
    "mingchen666/DocTranslator#27: names in a chart": (
        "ppt/charts/chart1.xml",
        f"<c:chartSpace {CHART} {A}><a:p><a:r><a:t>{{}}</a:t></a:r></a:p><c:cat><c:strRef><c:f>Sheet1!$A$2</c:f>"
        '<c:strCache><c:ptCount val="2"/><c:pt idx="0"><c:v>{}</c:v></c:pt><c:pt idx="1"><c:v>{}</c:v></c:pt>'
        "</c:strCache></c:strRef></c:cat><c:numCache><c:formatCode>General</c:formatCode></c:numCache></c:chartSpace>",
        ["a title", "a dog", "a cat"], ["a title", "a dog", "a cat"]),
    "matecat/MateCat#1712: text boxes of a sheet": (
        "xl/drawings/drawing1.xml", f"<a:sp {A}><a:p><a:r><a:t>{{}}</a:t></a:r></a:p></a:sp>", ["a box"], ["a box"]),
}  # fmt: skip
MAINS = {"word": "word/document.xml", "ppt": "ppt/presentation.xml", "xl": "xl/workbook.xml"}
KINDS = {"word": "docx", "ppt": "pptx", "xl": "xlsx"}


@pytest.mark.parametrize("member, xml, pieces, texts", OFFICE.values(), ids=OFFICE)
def test_what_was_reported_of_office_files_is_right(member, xml, pieces, texts):
    folder = member.partition("/")[0]
    content = packed({MAINS[folder]: "<a/>", member: xml.format(*pieces)})
    document = read_document(KINDS[folder], content)
    assert document.texts == texts and document.fill(texts) == content
    filled = read_member(document.fill([text.upper() for text in texts]), member)
    assert filled == xml.format(*(piece.upper() for piece in pieces))
