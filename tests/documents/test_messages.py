"""Messages of programs: what programs replace or look for stays, and each word that a person reads is translated."""

import json
from html import escape

import pytest

from hf_vaswani.documents.reading import read_document
from hf_vaswani.text.words import word_spans

XLIFF = '<xliff version="1.2"><file><body><trans-unit id="1"><source>{}</source></trans-unit></body></file></xliff>'
TARGET = '<target state="needs-review-translation" state-qualifier="mt-suggestion">{}</target>'


def uppercased(kind: str, content: str) -> str:
    """A document whose texts are in upper case, each word aligned with itself."""
    document = read_document(kind, content.encode())
    if kind not in ("po", "xliff"):
        assert document.fill(document.texts) == content.encode()
    alignments = [[(n, n) for n in range(len(word_spans(text)))] for text in document.texts]
    return document.fill([text.upper() for text in document.texts], alignments).decode()


def check(kind: str, message: str, filled: str) -> None:
    """Check a message, and its translation, as they are written in a file."""
    if kind == "json":
        assert uppercased(kind, f'{{"k": "{message}"}}') == f'{{"k": "{filled}"}}'
    elif kind == "properties":
        assert uppercased(kind, f"k={message}\n") == f"k={filled}\n"
    elif kind == "po":
        source = f'msgid "{message}"\nmsgstr '
        assert uppercased(kind, f'{source}""\n') == f'{source}"{filled}"\n'
    else:
        result = uppercased(kind, XLIFF.format(message))
        assert result == XLIFF.format(message).replace("</source>", f"</source>{TARGET.format(filled)}")


STRINGS = ("json", "po", "properties", "xliff")


@pytest.mark.parametrize("kind", STRINGS)
@pytest.mark.parametrize("placeholder", [
    "{name}", "{0, number}", "{{ name }}", "${name}", "#{name}", "%{name}", "$t(key)", "{a: {b: 1}}",
    "{{fullurl:{{PAGE}}|a=b}}", "%s", "%1$s", "%1$@", "%#@name@", "%@", "%d", "% d", "%,d", "%05.2f", "%*d", "%<n>d",
    "%n", "%%", "%(name)s", "%Y", "%1", "%L1", "%99", "%name%", "$1", "$name", "$name$", "$(ARG1)", "@name",
    "__name__", "%H%M", "%%(name)s", "%NAME", "%-5d", "[[page]]", "https://x.y/a_b?c=1", "a.b@x.org", ":ref:`a b`",
    "``a b``", "{name}/{other}", "{w}x{h}",
])  # fmt: skip
def test_placeholder_is_not_in_the_text(kind, placeholder):
    raw = escape(placeholder, quote=False) if kind == "xliff" else placeholder
    check(kind, f"take {raw} now", f"TAKE {raw} NOW")


@pytest.mark.parametrize("kind", STRINGS)
@pytest.mark.parametrize("message, filled", [
    ("it costs $10.50 now", "IT COSTS $10.50 NOW"),
    ("100 % d'amour", "100 % D'AMOUR"),
    ("it has a { brace", "IT HAS A { BRACE"),
    ("you @ home", "YOU @ HOME"),
    ("at 5% or 50% of all", "AT 5% OR 50% OF ALL"),
    ("a 50%ige, 5 %ige or 100%sichere one", "A 50%IGE, 5 %IGE OR 100%SICHERE ONE"),
    ("a%20and%2fc", "A%20AND%2FC"),
])  # fmt: skip
def test_what_only_looks_like_a_placeholder_is_text(kind, message, filled):
    document = read_document(kind, XLIFF.format(message).encode() if kind == "xliff" else
                             f"k={message}".encode() if kind == "properties" else
                             f'msgid "{message}"\nmsgstr ""\n'.encode() if kind == "po" else
                             json.dumps([message]).encode())  # fmt: skip
    assert document.texts == [message]
    check(kind, message, filled)


@pytest.mark.parametrize("kind", STRINGS)
@pytest.mark.parametrize("message, text, filled", [
    ("see %(start)sthe page%(end)s now", "see the page now", "SEE %(start)sTHE PAGE%(end)s NOW"),
    ("from %(min)spx to %(max)spx in it", "from to in it", "FROM %(min)spx TO %(max)spx IN IT"),
    ("it is %dpixels now", "it is pixels now", "IT IS %dPIXELS NOW"),
    ("it is %dpx, {n}% or %.1fMB now", "it is, or now", "IT IS %dpx, {n}% OR %.1fMB NOW"),
    ("it is %dx%d now", "it is now", "IT IS %dx%d NOW"),
    ("tagged %s %ss and %1$s%2$s it", "tagged and it", "TAGGED %s %ss AND %1$s%2$s IT"),
    ("at %1$Sms or %.3fs, %02dh on", "at or, on", "AT %1$Sms OR %.3fs, %02dh ON"),
    ("one.%nTwo %minutes%a", "one.Two a", "ONE.%nTWO %minutes%A"),
    ("a {0}%ige", "a %ige", "A {0}%IGE"),
])  # fmt: skip
def test_placeholder_ends_with_its_last_letter_whatever_follows(kind, message, text, filled):
    content = json.dumps([message])
    assert read_document("json", content.encode()).texts == [text]
    check(kind, message, filled)


@pytest.mark.parametrize("kind", STRINGS)
@pytest.mark.parametrize("message, filled", [
    ("{n, plural, one {a dog} other {# dogs}}", "{n, plural, one {A DOG} other {# DOGS}}"),
    ("{g, select, male {his {n, plural, =0 {no dogs} other {dogs}} here} other {theirs}}",
     "{g, select, male {HIS {n, plural, =0 {NO DOGS} other {DOGS}} HERE} other {THEIRS}}"),
    ("{n, selectordinal, offset:1 one {#st of {name}} other {#th}}",
     "{n, selectordinal, offset:1 one {#ST OF {name}} other {#TH}}"),
])  # fmt: skip
def test_messages_of_a_choice_are_translated_and_its_keywords_are_not(kind, message, filled):
    check(kind, message, filled)


@pytest.mark.parametrize("kind", ["json", "po"])
def test_choice_may_have_several_lines(kind):
    message = r"{n, plural,\n  one {a dog}\n  other {dogs}\n}"
    check(kind, message, message.replace("a dog", "A DOG").replace("{dogs", "{DOGS"))


def test_number_of_a_plural_is_no_text_in_choices_within_it():
    content = b'["{n, plural, other {{g, select, other {for # dogs}}}}", "{g, select, other {no. # 1}}"]'
    assert read_document("json", content).texts == ["for dogs", "no. # 1"]


def test_messages_of_a_choice_format_are_translated():
    check(
        "properties",
        "There {0,choice,0#are no files|1#is one file|1<are {0,number} files} here",
        "THERE {0,choice,0#ARE NO FILES|1#IS ONE FILE|1<ARE {0,number} FILES} HERE",
    )


@pytest.mark.parametrize("kind", ["json", "po", "properties"])
@pytest.mark.parametrize("message, filled", [
    ("Centre<br>label", "CENTRE<br>LABEL"),
    ("<p>one</p><p>two</p>", "<p>ONE</p><p>TWO</p>"),
    ("Use <name> tags", "USE <name> TAGS"),
    ("add it to the <body> tag", "ADD IT TO THE <body> TAG"),
    ("<div>one</div><div>two</div>", "<div>ONE</div><div>TWO</div>"),
    ("one<div>two", "ONE<div>TWO"),
    ("at:'postgres://u:p@db/x'<p>or ssh:// or git+ssh://x/y.", "AT:'postgres://u:p@db/x'<p>OR ssh:// OR git+ssh://x/y."),
    ("Script {0} : missing", "SCRIPT {0} : MISSING"),
    ("see (%s).", "SEE (%s)."),
    ("_https://x.y now", "_https://x.y NOW"),
    ("go (in %s %s)", "GO (IN %s %s)"),
    ("a (%s, %s) b", "A (%s, %s) B"),
    ("`{0}' is bad", "`{0}' IS BAD"),
    (r"Tip:\n\tIn\tword", r"TIP:\n\tIN\tWORD"),
    (r"in C:\\new here", r"IN C:\\NEW HERE"),
    (r"it is.\\n\\nNow a \\n B", r"IT IS.\\n\\nNOW A \\n B"),
    ("<i class='a'></i> can be", "<i class='a'></i> CAN BE"),
    ("see `the text <https://x.y>`_ now", "SEE `THE TEXT <https://x.y>`_ NOW"),
    ("see :ref:`the text <label>` now", "SEE :ref:`THE TEXT <label>` NOW"),
    ("&lt;b&gt;one&lt;/b&gt; two", "&lt;b&gt;ONE&lt;/b&gt; TWO"),
])  # fmt: skip
def test_nothing_is_glued_cut_or_lost(kind, message, filled):
    check(kind, message, filled)


@pytest.mark.parametrize("kind, message, filled", [
    ("json", r"at http://foo:\ud83d\udca9@x.com now", r"AT http://foo:\ud83d\udca9@x.com NOW"),
    ("json", r"at https:\/\/x.y\/z now", r"AT https:\/\/x.y\/z NOW"),
    ("properties", r"at https\://x.y now", r"AT https\://x.y NOW"),
    ("properties", r"\ dog\ ", r"\ DOG\ "),
    ("properties", "\\u0020dog", "\\u0020DOG"),
    ("properties", "\\\n  one {0} two", "\\\n  ONE {0} TWO"),
])  # fmt: skip
def test_escapes_stay_whole(kind, message, filled):
    document = read_document(kind, (f'["{message}"]' if kind == "json" else f"k={message}").encode())
    assert document.fill([text.upper() for text in document.texts]).decode() == (
        f'["{filled}"]' if kind == "json" else f"k={filled}".replace("\\\n  ONE", "ONE")
    )


@pytest.mark.parametrize("message, filled", [
    ("hide '{0}' now", "HIDE '{0}' NOW"),
    ("don''t hide {0}", "DON''T HIDE {0}"),
    ("hide '''{0}''' now", "HIDE '''{0}''' NOW"),
])  # fmt: skip
def test_apostrophes_of_properties_stay_doubled_or_single(message, filled):
    check("properties", message, filled)


@pytest.mark.parametrize("kind", ["json", "po", "properties"])
@pytest.mark.parametrize("value", [
    "2024-07-29T17:30:32", "#ffaa00", "newtab-toast.label", "org.apache.jmeter.TCPSamplerGui", "max_size", "MAX_SIZE",
    "innerWidth", "true", "412690f1368e37f70af57eecabb93497167eb9ba", "a0b1c2d3-a0b1-a0b1-a0b1-a0b1c2d3e4f5",
    "/usr/lib", "./a/b", "images/a.png", "chrome://browser/content", "image/png",
    "%(prefix)s_%(date)s.csv", "{0}.tar.gz", "${build.dir}/classes", "lib-${lib.version}.jar",
])  # fmt: skip
def test_value_that_only_programs_read_stays(kind, value):
    check(kind, value, "" if kind == "po" else value)


@pytest.mark.parametrize("kind", ["json", "po", "properties"])
@pytest.mark.parametrize("value", [
    "Yes", "on/off", "Flip/Rotate", "e-mail", "up-to-date", "z.B", "Ta_bort_stil", "A",
])  # fmt: skip
def test_word_that_a_person_reads_is_no_code(kind, value):
    check(kind, value, value.upper())


def test_mark_of_what_is_before_a_text_is_not_in_it():
    content = '["{0}: one", "{n, plural, other {two}}. Three", "...four"]'
    document = read_document("json", content.encode())
    assert document.texts == ["one", "two", "Three", "...four"] and document.fill(document.texts) == content.encode()


@pytest.mark.parametrize("content, texts", [
    ('{"a": {"message": "one", "description": "no"}, "b": {"message": "two"}}', ["one", "two"]),
    ('[{"id": "no way", "defaultMessage": "one", "description": "no"}]', ["one"]),
    ('{"a": {"message": "one", "title": "two"}}', ["one", "two"]),
    ('{"a": {"message": {"description": "one"}}}', ["one"]),
    ('{"en": {"translation": {"key": "one", "notes": "two"}}}', ["one", "two"]),
])  # fmt: skip
def test_what_describes_a_message_is_no_text(content, texts):
    assert read_document("json", content.encode()).texts == texts


def test_value_after_an_object_with_a_description_is_translated():
    assert read_document("json", b'[{"@a": "no"}, "yes"]').texts == ["yes"]
    assert read_document("json", b'{"a": {"b": "one", "@b": {"x": "no"}}, "c": "two"}').texts == ["one", "two"]


@pytest.mark.parametrize("kind, message, text, translation, filled", [
    ("po", "_Open", "Open", "Öffnen", "_Öffnen"),
    ("po", "Save _As", "Save As", "Sichern als", "Sichern _als"),
    ("po", "E_xit", "Exit", "Beenden", "_Beenden"),
    ("po", "E_xit", "Exit", "Exit", "E_xit"),
    ("properties", "&Look in:", "Look in:", "Lugar:", "&Lugar:"),
    ("properties", "S&ave", "Save", "Cama", "C&ama"),
    ("json", "Open ~Read-Only", "Open Read-Only", "Nur lesen", "Nu~r lesen"),
    ("json", "(_F)ile %s now", "(F)ile now", "Datei jetzt", "_Datei %s jetzt"),
    ("xliff", "&amp;File", "File", "Fichier", "&amp;Fichier"),
])  # fmt: skip
def test_mark_of_an_access_key_goes_before_the_first_fitting_letter(kind, message, text, translation, filled):
    content = {
        "po": f'msgid "{message}"\nmsgstr ""\n', "properties": f"k={message}", "json": f'["{message}"]',
        "xliff": XLIFF.format(message),
    }[kind]  # fmt: skip
    document = read_document(kind, content.encode())
    assert document.texts == [text]
    expected = {
        "po": f'msgid "{message}"\nmsgstr "{filled}"\n', "properties": f"k={filled}", "json": f'["{filled}"]',
        "xliff": content.replace("</source>", f"</source>{TARGET.format(filled)}"),
    }[kind]  # fmt: skip
    assert document.fill([translation]).decode() == expected


@pytest.mark.parametrize("message", ["AT&T and R&D", "see file_name here", "a && b", "my_own_word it is", "x&y={z}&w"])
def test_sign_that_marks_no_access_key_is_text(message):
    document = read_document("json", json.dumps([message]).encode())
    assert document.texts[0].replace("&w", "") == message.replace("{z}&w", "")


@pytest.mark.parametrize("message, translation, links, filled", [
    ("Hallo {name}, wie geht es dir?", "Hello how are you?", [(0, 0), (2, 1), (3, 2), (4, 3), (5, 4)],
     "Hello {name} how are you?"),
    ("Das ist {name}, mein Lehrer.", "That is my teacher.", [(0, 0), (1, 1), (3, 2), (4, 3)],
     "That is {name} my teacher."),
    ("Der Arzt ({x}) geht.", "The doctor is going.", [(0, 0), (1, 1), (2, 2), (2, 3)], "The doctor ({x}) is going."),
    ("Der Arzt '{x}' geht.", "The doctor is going.", [(0, 0), (1, 1), (2, 2), (2, 3)], "The doctor '{x}' is going."),
    ('Der Arzt "{x}" geht.', "The doctor is going.", [(0, 0), (1, 1), (2, 2), (2, 3)], 'The doctor "{x}" is going.'),
    ("Der Arzt „{x}“ geht.", "The doctor is going.", [(0, 0), (1, 1), (4, 2), (4, 3)], "The doctor {x} is going."),
    ("Der Arzt: {x}.", "The doctor is going:", [], "The doctor is going: {x}."),
    ("Breite von %(min)spx bis %(max)spx.", "Width from to.", [(0, 0), (1, 1), (2, 2)],
     "Width from %(min)spx to %(max)spx."),
    ("Ab %(min)spixel Breite", "Width from pixels", [(0, 1), (1, 2), (2, 0)], "Width from %(min)spixels"),
    ("Siehe %(a)sdie Seite%(b)s.", "Please see the page.", [(0, 1), (1, 2), (2, 3)], "Please see %(a)sthe page%(b)s."),
    ("{a} zu {b}, Hund", "dog to", [(0, 1), (2, 0)], "{a} dog to {b}"),
])  # fmt: skip
def test_placeholder_is_apart_from_words_unless_the_source_has_a_letter_there(message, translation, links, filled):
    document = read_document("json", json.dumps([message], ensure_ascii=False).encode())
    assert document.fill([translation], [links]).decode() == json.dumps([filled], ensure_ascii=False)
