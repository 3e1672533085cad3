"""Office files: runs travel with their words, other members and their order stay as they are."""

import io
import re
import zipfile

import pytest

from hf_vaswani.documents import office
from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
ODF = 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
DATE = (2001, 2, 3, 4, 5, 6)


def packed(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number, (name, content) in enumerate(members.items()):
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = zipfile.ZIP_DEFLATED if number else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return buffer.getvalue()


def run(text: str, look: str = "", space: str = "") -> str:
    look = f"<w:rPr>{look}</w:rPr>" if look else ""
    return f"<w:r>{look}<w:t{space}>{text}</w:t></w:r>"


def docx(body: str) -> bytes:
    return packed({
        "mimetype": "x", "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        "word/vbaProject.bin": "macro", "docProps/core.xml": "<a>not this</a>",
    })  # fmt: skip


def read_member(content: bytes, name: str = "word/document.xml") -> str:
    return zipfile.ZipFile(io.BytesIO(content)).read(name).decode()


def filled_body(body: str, translations: list[str]) -> str:
    found = read_member(read_document("docx", docx(body)).fill(translations))
    return re.sub(r"^<w:document [^>]*><w:body>|</w:body></w:document>$", "", found)


SPACE, BOLD = ' xml:space="preserve"', "<w:b/>"


@pytest.mark.parametrize("body, texts, translations, filled", [
    ("<w:p>" + run("the ", space=SPACE) + run("big", BOLD) + run(" dog", space=SPACE) + "</w:p>",
     ["the big dog"], ["der große Hund"],
     "<w:p>" + run("der ", space=SPACE) + run("große", BOLD) + run(" Hund", space=SPACE) + "</w:p>"),
    # A sentence that begins with other words than most of it has.
    ("<w:p>" + run("Note:", BOLD) + run(" this & that".replace("&", "&amp;"), space=SPACE) + "</w:p>",
     ["Note: this & that"], ["Hinweis: das & jenes"],
     "<w:p>" + run("Hinweis:", BOLD) + run(" das &amp; jenes", space=SPACE) + "</w:p>"),
    # What is between runs stays there, breaks divide, and spaces are kept.
    ("<w:p>" + run("a b") + "<w:bookmarkStart/>" + run("c d") + "<w:r><w:br/></w:r>" + run("e") + "</w:p>",
     ["a bc d", "e"], ["x y z", "v"],
     "<w:p>" + run("x") + "<w:bookmarkStart/>" + run(" y z", space=SPACE) + "<w:r><w:br/></w:r>" + run("v")
     + "</w:p>"),
    # What the program computes is not text.
    ("<w:p>" + run("page ", space=SPACE) + '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE '
     '</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>' + run("1") + '<w:r><w:fldChar '
     'w:fldCharType="end"/></w:r>' + run(" of all", space=SPACE) + "</w:p>",
     ["page of all"], ["Seite von allen"], None),
    # Text boxes are texts of their own.
    ("<w:p>" + run("out") + "<w:r><w:txbxContent><w:p>" + run("in") + "</w:p></w:txbxContent></w:r>" + run(" side")
     + "</w:p>", ["out side", "in"], ["aus wärts", "drin"],
     "<w:p>" + run("aus") + "<w:r><w:txbxContent><w:p>" + run("drin") + "</w:p></w:txbxContent></w:r>"
     + run(" wärts", space=SPACE) + "</w:p>"),
])  # fmt: skip
def test_runs_of_word_travel_with_their_words(body, texts, translations, filled):
    document = read_document("docx", docx(body))
    assert document.texts == texts
    assert document.fill(texts) == docx(body)
    found = filled_body(body, translations)
    if filled:
        assert found == filled
    else:
        assert re.sub(r"<w:t.*?</w:t>", "", found) == re.sub(r"<w:t.*?</w:t>", "", body) and run("1") in found


def test_bold_word_follows_an_alignment():
    body = "<w:p>" + run("now the ") + run("dog", BOLD) + run(" runs fast") + "</w:p>"
    alignment = [(0, 0), (1, 3), (2, 4), (3, 1), (4, 2)]
    found = read_member(read_document("docx", docx(body)).fill(["jetzt läuft schnell der Hund"], [alignment]))
    assert re.findall(r"<w:t[^>]*>([^<]*)<", found) == ["jetzt läuft schnell der ", "Hund", ""]
    assert found.count("<w:b/>") == 1


def test_other_members_stay_with_their_order_dates_and_compression():
    content = docx("<w:p>" + run("a") + "</w:p>")
    before, after = (zipfile.ZipFile(io.BytesIO(one)) for one in (content, read_document("docx", content).fill(["ü"])))
    for old, new in zip(before.infolist(), after.infolist(), strict=True):
        assert (new.filename, new.date_time, new.compress_type, new.external_attr) == (
            old.filename, DATE, old.compress_type, old.external_attr)  # fmt: skip
        assert (after.read(new) == before.read(old)) is (old.filename != "word/document.xml")


def test_slide_keeps_its_runs_and_fields():
    slide = (
        f'<p:sld {A}><a:p><a:r><a:rPr lang="en" b="1"/><a:t>big</a:t></a:r><a:r><a:rPr lang="en"/>'
        '<a:t> small text</a:t></a:r><a:br/><a:fld type="slidenum"><a:t>No 1</a:t></a:fld></a:p></p:sld>'
    )
    content = packed({"ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": slide})
    document = read_document("pptx", content)
    assert document.texts == ["big small text"] and document.fill(document.texts) == content
    filled = read_member(document.fill(["groß kleiner Text"]), "ppt/slides/slide1.xml")
    assert filled == slide.replace(">big<", ">groß<").replace("> small text<", "> kleiner Text<")


def test_open_document_keeps_spans_notes_and_tabs():
    body = (
        "<text:tracked-changes><text:p>left</text:p></text:tracked-changes>"
        '<text:h>one</text:h><text:p>a <text:span text:style-name="T1">big</text:span> dog<text:note>'
        "<text:note-citation>1</text:note-citation><text:note-body><text:p>foot</text:p></text:note-body></text:note>"
        ", there<text:tab/><text:page-number>7</text:page-number> end</text:p>"
    )
    content = packed({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": f"<o {ODF}>{body}</o>"})
    document = read_document("odt", content)
    assert document.texts == ["one", "a big dog, there", "foot", "end"] and document.fill(document.texts) == content
    filled = read_member(document.fill([text.upper() for text in document.texts]), "content.xml")
    expected = body
    for text in ("one", "a ", ">big", " dog", "foot", ", there", " end"):
        expected = expected.replace(text, text.upper(), 1)
    assert filled == f"<o {ODF}>{expected}</o>"


@pytest.mark.parametrize("body, text", [
    ("<w:r><w:t>an e</w:t><w:noBreakHyphen/><w:t>mail</w:t></w:r>", "an e-mail"),
    ("<w:r><w:t>an e</w:t></w:r><w:r><w:noBreakHyphen/></w:r><w:r><w:t>mail</w:t></w:r>", "an e-mail"),
    ("<w:r><w:ruby><w:rt>" + run("no") + "</w:rt><w:rubyBase>" + run("yes") + "</w:rubyBase></w:ruby></w:r>", "yes"),
    ("<w:moveFrom>" + run("no") + "</w:moveFrom>" + run("yes"), "yes"),
])  # fmt: skip
def test_signs_and_hidden_text_of_word(body, text):
    content = docx(f"<w:p>{body}</w:p>")
    document = read_document("docx", content)
    assert document.texts == [text] and document.fill([text]) == content
    filled = read_member(document.fill(["AN E-MAIL"]))
    assert "".join(re.findall(r"<w:t[^>]*>([^<]*)</w:t>", filled)).replace("no", "") == "AN E-MAIL"
    assert "noBreakHyphen" not in filled


def test_space_of_an_open_document_is_a_space():
    def read(text: str):
        return read_document(
            "odt", packed({"content.xml": f"<office:document-content {ODF}>{text}</office:document-content>"})
        )

    document = read('<text:p>one<text:s/><text:span>two</text:span><text:s text:c="3"/>three</text:p>')
    assert document.texts == ["one two three"]
    assert read_member(document.fill(["ONE TWO THREE"]), "content.xml").endswith(
        '<text:p>ONE<text:s/><text:span>TWO</text:span><text:s text:c="3"/>THREE</text:p></office:document-content>'
    )


def test_space_at_the_end_of_a_span_stays():
    text = "<text:p>the <text:span>price: <text:s/></text:span><text:page-number>5</text:page-number></text:p>"
    content = packed({"content.xml": f"<office:document-content {ODF}>{text}</office:document-content>"})
    filled = read_member(read_document("odt", content).fill(["THE PRICE:"]), "content.xml")
    assert text.replace("the", "THE").replace("price", "PRICE") in filled


def test_masters_are_translated_except_for_their_prompts():
    shape = "<p:sp>{}<a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sp>"
    master = f"<p:sldMaster {A}>{shape.format('<p:ph/>', 'click here')}{shape.format('', 'our firm')}</p:sldMaster>"
    slide = f"<p:sld {A}>{shape.format('<p:ph/>', 'a title')}</p:sld>"
    names = "ppt/slideMasters/slideMaster1.xml", "ppt/slides/slide1.xml"
    content = packed({"ppt/presentation.xml": "<a/>", **dict(zip(names, (master, slide)))})
    assert read_document("pptx", content).texts == ["our firm", "a title"]
    notes = master.replace("sldMaster", "notesMaster")
    content = packed({"ppt/presentation.xml": "<a/>", "ppt/notesMasters/notesMaster1.xml": notes})
    assert read_document("pptx", content).texts == ["our firm"]
    frame = '<draw:frame presentation:class="{}"><text:p>{}</text:p></draw:frame>'
    styles = f"{frame.format('title', 'click here')}<draw:frame><text:p>our firm</text:p></draw:frame>"
    names = f"{ODF} xmlns:office='o' xmlns:draw='d' xmlns:presentation='p'"
    styles = f"<office:document-styles {names}>{styles}</office:document-styles>"
    assert read_document("odp", packed({"content.xml": "<a/>", "styles.xml": styles})).texts == ["our firm"]


S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
STRINGS = f"""<sst {S}><si><t>a column</t></si><si><t>one
two</t></si><si><r><t>big </t></r><r><rPr><b/></rPr><t>dog</t></r><rPh><t>no</t></rPh></si><si><t>12</t></si></sst>"""


def test_texts_of_a_sheet_are_translated_except_for_names_of_columns():
    table = f'<table {S}><tableColumns><tableColumn id="1" name="a column"/></tableColumns></table>'
    sheet = (
        f'<worksheet {S}><c t="inlineStr"><is><t>a text</t></is></c><c t="str"><f>A1</f><v>no</v></c>'
        '<c r="A1" t="str"><v>its value</v></c></worksheet>'
    )
    members = {"xl/workbook.xml": "<a/>", "xl/worksheets/sheet1.xml": sheet, "xl/tables/table1.xml": table}
    content = packed({**members, "xl/sharedStrings.xml": STRINGS})
    document = read_document("xlsx", content)
    assert sorted(document.texts) == ["a text", "big dog", "its value", "one", "two"]
    assert document.fill(document.texts) == content
    filled = STRINGS.replace("one\ntwo", "ONE\nTWO").replace("<t>big ", f"<t{SPACE}>BIG ").replace(">dog", ">DOG")
    done = document.fill([text.upper() for text in document.texts])
    assert read_member(done, "xl/sharedStrings.xml") == filled
    assert read_member(done, "xl/worksheets/sheet1.xml") == sheet.replace("a text", "A TEXT").replace(
        "its value", "ITS VALUE"
    )


def test_cells_of_an_open_document_are_translated_if_they_are_text():
    cell = '<table:table-cell office:value-type="{}"{}><text:p>{}</text:p></table:table-cell>'
    cells = cell.format("string", "", "a text") + cell.format("date", "", "May 1") + cell.format(
        "string", ' table:formula="of:=A1"', "a result"
    )  # fmt: skip
    names = f"{ODF} xmlns:office='o' xmlns:table='t'"
    content = packed({"content.xml": f"<office:document-content {names}>{cells}</office:document-content>"})
    assert read_document("ods", content).texts == ["a text"]


def test_description_of_a_picture_is_translated():
    picture = '<w:r><w:drawing><wp:docPr id="1" name="Picture 1" descr="{}"/></w:drawing></w:r>'
    body = f"<w:p>{run('one')}{picture.format('a &quot;dog&quot;')}{run(' two')}{picture.format('a dog.png')}</w:p>"
    document = read_document("docx", docx(body))
    assert document.texts == ["one two", 'a "dog"'] and document.fill(document.texts) == docx(body)
    filled = re.sub('xml:space="preserve"', "", filled_body(body, ["ONE TWO", 'A "DOG"']))
    assert 'descr="A &quot;DOG&quot;"' in filled and 'descr="a dog.png"' in filled
    frame = "<text:p>one<draw:frame><svg:title>a title</svg:title><svg:desc>a dog</svg:desc></draw:frame> two</text:p>"
    names = f"{ODF} xmlns:draw='d' xmlns:svg='s'"
    content = packed({"content.xml": f"<o {names}>{frame}</o>"})
    document = read_document("odt", content)
    assert document.texts == ["one two", "a title", "a dog"] and document.fill(document.texts) == content


def test_hyphen_next_to_a_text_box_stays():
    box = f"<w:r><w:txbxContent><w:p>{run('in')}</w:p></w:txbxContent></w:r>"
    content = docx(f"<w:p>{run('an e')}<w:r><w:noBreakHyphen/></w:r>{box}{run('mail')}</w:p>")
    document = read_document("docx", content)
    assert document.fill(document.texts) == content
    assert b"noBreakHyphen" in read_member(document.fill([text.upper() for text in document.texts])).encode()


def test_chart_in_an_open_document_is_translated():
    names = f"{ODF} xmlns:office='o' xmlns:chart='c'"
    chart = f"<o {names}><chart:title><text:p>a title</text:p></chart:title></o>"
    content = packed({"content.xml": f"<o {names}/>", "Object 1/content.xml": chart})
    document = read_document("ods", content)
    assert document.texts == ["a title"] and document.fill(document.texts) == content
    assert read_member(document.fill(["A TITLE"]), "Object 1/content.xml") == chart.replace("a title", "A TITLE")


@pytest.mark.parametrize("prefix", ["c:", ""])
def test_names_in_a_chart_are_translated_and_its_numbers_stay(prefix):
    name = f'xmlns{":c" if prefix else ""}="http://schemas.openxmlformats.org/drawingml/2006/chart"'
    chart = (
        f"<chartSpace {name} {A}><a:p><a:r><a:t>a title</a:t></a:r></a:p><strCache><pt><v>a dog</v></pt></strCache>"
        "<numCache><formatCode>General</formatCode><pt><v>#N/A</v></pt></numCache></chartSpace>"
    )
    chart = re.sub(r"<(/?)(?=\w+[ >])", rf"<\1{prefix}", chart)
    content = packed({"word/document.xml": "<a/>", "word/charts/chart1.xml": chart})
    document = read_document("docx", content)
    assert document.texts == ["a title", "a dog"] and document.fill(document.texts) == content
    filled = chart.replace("a title", "A TITLE").replace("a dog", "A DOG")
    assert read_member(document.fill(["A TITLE", "A DOG"]), "word/charts/chart1.xml") == filled


def test_parts_with_other_names_are_found_by_their_types():
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    types = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{word}.{kind}+xml"/>'
        for name, kind in (("body", "document.main"), ("feet", "footer"), ("look", "styles"))
    )
    parts = {f"word/{name}.xml": f"<w:x {W}><w:p>{run(name)}</w:p></w:x>" for name in ("body", "feet", "look")}
    assert read_document("docx", packed({"[Content_Types].xml": types, **parts})).texts == ["body", "feet"]


def test_member_that_is_not_read_may_be_packed_well():
    body = f"<w:document {W}><w:p>{run('text')}</w:p></w:document>"
    content = packed({"word/document.xml": body, "docProps/app.xml": " " * 20_000_000})
    assert read_document("docx", content).texts == ["text"]


def test_open_document_with_a_password_says_so():
    manifest = "<manifest:encryption-data/>"
    with pytest.raises(InputError, match="It has a password. Save it without one."):
        read_document("odt", packed({"content.xml": "\xad", "META-INF/manifest.xml": manifest}))


def test_archive_that_is_no_such_document_is_refused(monkeypatch):
    def error_of(content: bytes, kind: str = "docx") -> str:
        with pytest.raises(InputError) as error:
            read_document(kind, content)
        return str(error.value)

    assert error_of(b"PK\3\4") == "It is not docx, or damaged (File is not a zip file). Save it again."
    assert error_of(b"%PDF-1.7") == "It is a PDF, not docx. Choose another format or file."
    assert error_of(office.OLD_BINARY + b"x" * 99).startswith("It has a password, or an older format.")
    assert error_of(docx(""), "odt") == "It is docx, not odt. Choose another format or file."
    assert error_of(packed({"a": ""}), "odt") == (
        "It is not odt: it lacks content.xml. Choose another format or file."
    )
    assert error_of(docx("<w:p>")).startswith("word/document.xml: Line 1, column ")
    bomb = packed({"a": "", "word/document.xml": " " * (office.SMALL + 1)})
    assert re.match(r"word/document.xml in it is 10\d\d times as large unpacked, and not read", error_of(bomb))
    monkeypatch.setattr(office, "MOST_UNPACKED", 1 << 20)
    assert error_of(bomb) == "Unpacked, it has 8 MB, but at most 1 MB are read. Split it."


OFFICE_FILES = {
    "docx": {"word/document.xml": "<a/>"},
    "pptx": {"ppt/presentation.xml": "<a/>"},
    "xlsx": {"xl/workbook.xml": "<a/>"},
    **{kind: {"mimetype": f"application/vnd.oasis.opendocument.{name}", "content.xml": "<a/>"}
       for kind, name in (("odt", "text"), ("odp", "presentation"), ("ods", "spreadsheet-template"))},
}  # fmt: skip


@pytest.mark.parametrize("kind", OFFICE_FILES)
@pytest.mark.parametrize("actual", OFFICE_FILES)
def test_office_file_of_another_kind_is_named(kind, actual):
    content = packed(OFFICE_FILES[actual])
    if kind == actual:
        assert read_document(kind, content).fill([]) == content
    else:
        with pytest.raises(InputError, match=f"^It is {actual}, not {kind}. Choose another format or file.$"):
            read_document(kind, content)


@pytest.mark.parametrize("name, kind", [
    ("openxmlformats-officedocument.wordprocessingml.template", "docx"), ("ms-word.document.macroEnabled", "docx"),
    ("openxmlformats-officedocument.presentationml.slideshow", "pptx"),
    ("ms-powerpoint.presentation.macroEnabled", "pptx"),
    ("openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"), ("ms-excel.sheet.macroEnabled", "xlsx"),
])  # fmt: skip
def test_office_file_of_another_kind_is_named_by_the_type_of_its_main_part(name, kind):
    tag = f'<Override PartName="/x/main.xml" ContentType="application/vnd.{name}.main+xml"/>'
    content = packed({"[Content_Types].xml": tag, "x/main.xml": "<a/>"})
    assert read_document(kind, content).texts == []
    for other in {"docx", "pptx", "xlsx", "odt"} - {kind}:
        with pytest.raises(InputError, match=f"^It is {kind}, not {other}."):
            read_document(other, content)


def test_archive_that_cannot_be_unpacked_says_so_in_words():
    content = docx(f"<w:p>{run('one')}</w:p>")
    at = content.rindex(b"PK\5\6") + 16  # where the directory of its members begins
    damaged = content[:at] + b"\xff\xff\xff\x7f" + content[at + 4 :]
    with pytest.raises(InputError) as error:
        read_document("docx", damaged)
    assert str(error.value) == "It is not docx, or damaged (what is in it cannot be unpacked). Save it again."


def test_addresses_alone_in_cells_and_paragraphs_are_no_text():
    text = "<si><t>https://example.com</t></si><si><t>a.b@example.com</t></si><si><t>see www.example.com</t></si>"
    content = packed({"xl/workbook.xml": "<a/>", "xl/sharedStrings.xml": f"<sst {S}>{text}</sst>"})
    assert read_document("xlsx", content).texts == ["see www.example.com"]
    assert read_document("docx", docx(f"<w:p>{run('https://exa')}{run('mple.com', BOLD)}</w:p>")).texts == []
    paragraph = f"<x {ODF}><text:p>a@<text:span>example.com</text:span></text:p></x>"
    assert read_document("odt", packed({"content.xml": paragraph})).texts == []


def test_text_of_an_archive_is_limited_in_bytes_and_tags_and_its_pictures_are_not(monkeypatch):
    def error_of(content: bytes) -> str:
        with pytest.raises(InputError) as error:
            read_document("docx", content)
        return str(error.value)

    body = f"<w:document {W}><w:body><w:p>{{}}</w:p></w:body></w:document>"
    bomb = packed({"a": "", "word/document.xml": body.format("<w:b/>" * 2_000_000 + run("one"))})
    monkeypatch.setattr(office, "SMALL", 1 << 30)
    assert error_of(bomb).startswith("It has 2,000,0")
    picture = {"word/media/image.png": "x" * 9_000_000}
    monkeypatch.setattr(office, "MOST_XML", 1 << 20)
    assert error_of(bomb) == "Unpacked, its text has 11 MB, but at most 1 MB are read. Split it."
    document = read_document("docx", packed({**picture, "word/document.xml": body.format(run("one"))}))
    with zipfile.ZipFile(io.BytesIO(document.fill(["eins"]))) as archive:
        assert archive.read("word/media/image.png").decode() == picture["word/media/image.png"]


def test_paragraphs_that_are_nested_without_end_are_refused():
    with pytest.raises(InputError, match="More than 30 paragraphs are inside of each other. Simplify it."):
        read_document("docx", docx("<w:p><w:r>" * 400 + "</w:r></w:p>" * 400))
    depth = 10
    document = read_document("docx", docx(f"<w:p>{run('a')}<w:r>" * depth + "</w:r></w:p>" * depth))
    assert document.texts == ["a"] * depth
    document.fill(["b"] * depth)


def test_damaged_picture_is_found_before_the_text_is_translated():
    content = docx(f"<w:p>{run('one')}</w:p>")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        stored = packed(
            {"word/vbaProject.bin": "macro", "word/document.xml": archive.read("word/document.xml").decode()}
        )
    with pytest.raises(InputError, match="It is not docx, or damaged"):
        read_document("docx", stored.replace(b"macro", b"micro"))
