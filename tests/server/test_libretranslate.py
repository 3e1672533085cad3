"""LibreTranslate's API, as its clients use it."""

import asyncio
import json

import pytest

pytest.importorskip("fastapi_offline")

from hf_vaswani.server.accounts import APIError
from hf_vaswani.server.catalog import Catalog, Pair, Route
from hf_vaswani.server.detection import Detector
from hf_vaswani.server.documents import Document, Documents


def translate(client, **fields):
    return client.post("/translate", json={"source": "de", "target": "en", **fields})


def test_text_and_list_are_answered_in_their_own_shape(client):
    assert translate(client, q="ein Hund").json() == {"translatedText": "EIN HUND"}
    assert translate(client, q=["ein", "Hund"]).json() == {"translatedText": ["EIN", "HUND"]}
    assert translate(client, q=[]).json() == {"translatedText": []}


def test_form_and_address_are_read_as_json_is(client):
    fields = {"q": "ein Hund", "source": "de", "target": "en"}
    answers = [client.post("/translate", data=fields), client.post("/translate", params=fields)]
    assert [answer.json() for answer in answers] == [{"translatedText": "EIN HUND"}] * 2


def test_language_is_guessed_for_each_text(client):
    answer = translate(client, q=["Das ist ein kleiner Hund.", "Ceci est un petit chien."], source="auto").json()
    assert answer["translatedText"] == ["DAS IST EIN KLEINER HUND.", "CECI EST UN PETIT CHIEN."]
    assert [entry["language"] for entry in answer["detectedLanguage"]] == ["de", "fr"]


def test_text_in_the_target_language_stays_as_it_is(client, model):
    answer = translate(client, q=["The dog runs in the park.", "Das ist ein kleiner Hund."], source="auto").json()
    assert answer["translatedText"] == ["The dog runs in the park.", "DAS IST EIN KLEINER HUND."]
    assert [entry["language"] for entry in answer["detectedLanguage"]] == ["en", "de"]
    assert [chunk.texts for chunk in model.chunks] == [("Das ist ein kleiner Hund.",)]
    assert translate(client, q="A dog.", source="en").json() == {"translatedText": "A dog."}


def test_text_in_a_language_that_is_not_served_is_translated_with_low_confidence_and_a_warning(client):
    answer = translate(client, q="Esto es un perro pequeño que vive en nuestra casa.", source="auto").json()
    assert answer["detectedLanguage"]["confidence"] < 50
    assert answer["warnings"] == ["The text seems to be in Spanish, not in French"]


def test_warnings_are_given_with_the_texts_that_have_them(client):
    assert translate(client, q="doubtful").json() == {"translatedText": "DOUBTFUL", "warnings": ["doubtful"]}
    assert translate(client, q=["doubtful", "sure"]).json()["warnings"] == [["doubtful"], []]
    assert "warnings" not in translate(client, q="sure").json()


@pytest.mark.parametrize("source", ["de", "auto"])
def test_terms_of_a_request_reach_the_model_with_the_lines_that_have_them(client, model, source):
    terms = "Hund\thound\nKatze\tcat"
    assert translate(client, q="Das ist ein Hund.\nWer ist das?", source=source, glossary=terms).status_code == 200
    [chunk] = model.chunks
    assert [[(entry.source, entry.targets) for entry in one.entries] for one in chunk.glossaries] == [
        [("Hund", ("hound",))], [],
    ]  # fmt: skip
    file = {"file": ("a.txt", b"Katze")}
    client.post("/translate_file", data={"source": source, "target": "en", "glossary": terms}, files=file)
    assert [entry.source for one in model.chunks[1].glossaries for entry in one.entries] == ["Katze"]


def test_glossary_of_deepls_calls_is_used_by_its_id(client, model):
    fields = {"name": "a", "source_lang": "de", "target_lang": "en", "entries": "Hund\thound", "entries_format": "tsv"}
    number = client.post("/v2/glossaries", json=fields).json()["glossary_id"]
    assert translate(client, q="Hund", glossary_id=number).status_code == 200
    assert [entry.source for entry in model.chunks[0].glossaries[0].entries] == ["Hund"]
    answer = translate(client, q="Hund", source="auto", glossary_id=number)
    assert (answer.status_code, answer.json()["error"]) == (
        400, "Invalid request: with glossary_id, source must be a language",
    )  # fmt: skip
    assert translate(client, q="Hund", glossary_id="other").status_code == 404


@pytest.mark.parametrize("terms, message", [
    ("Hund", "line 1 has no source and target term"), ("a\tb\na\tc", "line 2 repeats a source term"),
    ("a\t" + "b" * 100_000, "glossary: String should have at most 100000 characters"),
])  # fmt: skip
def test_wrong_terms_are_named(client, terms, message):
    answer = translate(client, q="Hund", glossary=terms)
    assert answer.status_code == 400 and message in answer.json()["error"]


def test_alignment_tells_where_words_are_and_which_correspond(client, model):
    async def remote(pairs):
        assert (pairs.texts, pairs.translations) == (("Ein Hund!", "Ja"), ("A dog", "Yes"))
        return [{(1, 1), (0, 0)}, None]

    model.remote = remote
    fields = {"q": ["Ein Hund!", "Ja"], "translation": ["A dog", "Yes"], "source": "de", "target": "en"}
    assert client.post("/align", json=fields).json() == {"alignments": [
        {"source": [[0, 3], [4, 8], [8, 9]], "target": [[0, 1], [2, 5]], "links": [[0, 0], [1, 1]]},
        {"source": [[0, 2]], "target": [[0, 3]], "links": []},
    ]}  # fmt: skip
    answer = client.post("/align", json={**fields, "translation": "A dog"})
    assert (answer.status_code, answer.json()["error"]) == (400, "Invalid request: each text needs its translation")


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "query"])
@pytest.mark.parametrize("text", ["Ein Hund läuft.", "Ein%20Hund%20l%C3%A4uft."])
def test_forms_are_read_as_utf_8(client, kind, text):
    content = f"q={text}&source=de&target=en".encode()
    if kind == "query":
        scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": content, "headers": []}
        answer = _call(client.app, scope)
    else:
        answer = client.post("/translate", content=content, headers={"content-type": kind}).json()
    assert answer == {"translatedText": "EIN HUND LÄUFT."}


def _call(app, scope):
    sent = []

    async def receive():
        return messages.pop(0) if messages else await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    messages = [{"type": "http.request", "body": b""}]
    asyncio.run(app(scope, receive, send))
    return json.loads(sent[1]["body"])


def test_form_that_is_not_in_utf_8_is_refused(client):
    for content in (b"q=Ein Hund l\xe4uft.&source=de&target=en", b"q=Ein%20Hund%20l%E4uft.&source=de&target=en"):
        headers = {"content-type": "application/x-www-form-urlencoded"}
        answer = client.post("/translate", content=content, headers=headers)
        assert answer.status_code == 400 and "UTF-8" in answer.json()["error"]


def test_alternatives_follow_the_best_translation(client):
    assert translate(client, q="a", alternatives=2).json() == {"translatedText": "A", "alternatives": ["A1", "A2"]}
    assert translate(client, q=["a", "b"], alternatives=1).json()["alternatives"] == [["A1"], ["B1"]]


def test_lines_are_translated_sequential_and_keep_their_whitespace(client, model):
    assert translate(client, q=" ein\r\n\n\t Hund \n").json() == {"translatedText": " EIN\r\n\n\t HUND \n"}
    assert [chunk.texts for chunk in model.chunks] == [("ein", "Hund")]


def test_html_keeps_its_tags(client):
    html = '<p>ein <a href="x?a=1&b=2">Hund</a> &amp; eine Katze</p>'
    answer = translate(client, q=html, format="html").json()["translatedText"]
    assert answer == '<p>EIN <a href="x?a=1&b=2">HUND</a> &amp; EINE KATZE</p>'


@pytest.mark.parametrize("change, status, message", [
    ({"q": None}, 400, "missing q parameter"),
    ({"q": 5}, 400, "q: it must be a text or a list of texts"),
    ({"target": ""}, 400, "missing target parameter"),
    ({"source": "xx"}, 400, "source xx is not supported; there are de, en, fr"),
    ({"target": "fr"}, 400, "target fr is not supported; there are de, en"),
    ({"source": "fr", "target": "de"}, 400, "fr is not translated to de here"),
    ({"format": "pdf"}, 400, "format: Input should be 'text' or 'html'"),
    ({"alternatives": 10}, 400, "alternatives parameter must be <= 9"),
    ({"alternatives": "many"}, 400, "alternatives"),
    ({"q": "impossible"}, 400, "A text cannot be translated: it cannot be encoded"),
])  # fmt: skip
def test_wrong_request_is_named(client, change, status, message):
    fields = {"q": "a", "source": "de", "target": "en", **change}
    answer = client.post("/translate", json={name: value for name, value in fields.items() if value is not None})
    assert answer.status_code == status and message in answer.json()["error"]


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b'"text"'])
def test_body_that_is_no_json_object_is_named(client, body):
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "body" in answer.json()["error"]


def test_languages_name_their_targets(client):
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "fr", "name": "French", "targets": ["en"]},
    ]


def test_detection_ranks_the_served_languages(client):
    found = client.post("/detect", data={"q": "Ich habe einen kleinen Hund."}).json()
    assert found[0]["language"] == "de" and found[0]["confidence"] > 50
    assert {entry["language"] for entry in found} == {"de", "en", "fr"}


@pytest.mark.parametrize("suffix, content, translated", [
    ("txt", b"ein\nHund\n", b"EIN\nHUND\n"),
    ("md", b"# ein *Hund*\n", b"# EIN *HUND*\n"),
    ("po", b'msgid "ein %s"\nmsgstr ""\n', b'msgid "ein %s"\nmsgstr "EIN %s"\n'),
])  # fmt: skip
def test_file_is_translated_and_downloaded_by_its_name(client, suffix, content, translated):
    files, fields = {"file": (f"../../mein text.{suffix}", content)}, {"source": "de", "target": "en"}
    address = client.post("/translate_file", files=files, data=fields).json()["translatedFileUrl"]
    assert address.endswith(f".mein%20text.{suffix}")
    answer = client.get(address)
    assert answer.content == translated and f"mein%20text.{suffix}" in answer.headers["content-disposition"]


@pytest.mark.parametrize("name, content, message", [
    ("a.exe", b"x", "format .exe not supported"), ("a.txt", b"\xff", "not text in UTF-8"), ("a.txt", b"", "is empty"),
    ("a.docx", b"PK", "It is not docx"),
])  # fmt: skip
def test_file_that_is_not_text_is_named(client, name, content, message):
    answer = client.post("/translate_file", files={"file": (name, content)}, data={"source": "de", "target": "en"})
    assert answer.status_code == 400 and message in answer.json()["error"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "x.txt", "%2e%2e%2fetc%2fpasswd"])
def test_only_translated_files_can_be_downloaded(client, name):
    assert client.get(f"/download_file/{name}").status_code == 404


def test_text_without_letters_stays_as_it_is(client, model):
    assert translate(client, q=["12345", "🙂"], source="auto").json()["translatedText"] == ["12345", "🙂"]
    assert not model.chunks


@pytest.mark.parametrize("change, message", [
    ({"source": "x" + "-" * 10_000}, "is not supported; there are de, en, fr"),
    ({"source": "fr-" + "x" * 200_000}, "is not supported; there are de, en, fr"),
    ({"source": "auto", "target": "fr"}, "target fr is not supported; there are de, en"),
    ({"source": "auto", "target": "xx", "q": []}, "target xx is not supported; there are de, en"),
])  # fmt: skip
def test_language_that_is_not_served_is_named_briefly(client, change, message):
    error = translate(client, **{"q": "a", **change}).json()["error"]
    assert message in error and len(error) < 300


@pytest.mark.parametrize("served, asked", [
    ("zh-Hans", "zh-CN"), ("zh-Hant", "zh-TW"), ("zh-Hant", "zt"), ("pt-BR", "pb"), ("nb", "no"), ("zh", "zh-CN"),
    ("ar", "ar"), ("en-GB", "en"), ("en", "EN-US"),
])  # fmt: skip
def test_codes_of_clients_find_their_languages(served, asked):
    others = ["zh-Hans", "zh-Hant"] if served in ("zh-Hans", "zh-Hant") else [served]
    catalog = Catalog({"m": "folder"}, {Pair(code, "de"): Route("m") for code in others})
    assert catalog.find(asked, "de") == (Pair(served, "de"), Route("m"))


def test_scripts_of_chinese_are_told_apart():
    detector = Detector(["de", "zh-Hans", "zh-Hant"])
    assert detector.rank("这是一只狗。")[0].language == "zh-Hans"
    assert detector.rank("這是一隻狗。")[0].language == "zh-Hant"


def test_oldest_documents_of_an_owner_make_room_for_new_ones(monkeypatch):
    monkeypatch.setattr("hf_vaswani.server.documents.MOST_BYTES", 100)
    documents, kept = Documents(), []
    for number in range(3):
        kept.append(Document(f"{number}.txt", 20, "a", result=b"x" * 20))
        documents.add(kept[-1])
    assert list(documents.by_id.values()) == kept[1:]
    with pytest.raises(APIError, match="Too many documents"):
        documents.add(Document("b.txt", 20, "b"))
