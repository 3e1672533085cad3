"""DeepL's API, as its clients use it."""

import pytest


def translate(client, **fields):
    return client.post("/v2/translate", json={"target_lang": "EN-US", **fields})


def test_texts_are_translated_from_the_language_that_each_is_in(client):
    texts = ["Das ist ein kleiner Hund.", "Ceci est un petit chien."]
    found = translate(client, text=texts).json()["translations"]
    assert [entry["detected_source_language"] for entry in found] == ["DE", "FR"]
    assert [entry["text"] for entry in found] == [text.upper() for text in texts]
    assert [entry["billed_characters"] for entry in found] == [25, 24]


def test_form_with_repeated_fields_is_read_as_json_is(client):
    content = "text=ein&text=Hund&source_lang=DE&target_lang=EN-GB"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    found = client.post("/v2/translate", content=content, headers=headers).json()["translations"]
    assert [entry["text"] for entry in found] == ["EIN", "HUND"]


def test_ignored_tags_keep_their_place_and_their_content(client):
    text = 'Hallo <x id="1"></x> und <k>Vaswani</k> Welt'
    answer = translate(client, text=[text], source_lang="DE", tag_handling="xml", ignore_tags=["x", "k"]).json()
    assert answer["translations"][0]["text"] == 'HALLO <x id="1"></x> UND <k>Vaswani</k> WELT'


@pytest.mark.parametrize("change, message", [
    ({"text": None}, "missing text parameter"),
    ({"target_lang": "FR"}, "target_lang FR is not supported"),
    ({"formality": "more"}, "formality is not supported by this server"),
    ({"tag_handling": "docx"}, "tag_handling"),
])  # fmt: skip
def test_wrong_request_is_named(client, change, message):
    answer = translate(client, **{"text": ["a"], "source_lang": "DE", **change})
    assert answer.status_code == 400 and message in answer.json()["message"]


def test_formality_that_makes_no_difference_is_accepted(client):
    assert translate(client, text="a", source_lang="DE", formality="prefer_more").status_code == 200


def test_what_is_not_served_is_refused_by_name(client):
    answer = client.post("/v2/write/rephrase", json={"text": ["a"]})
    assert answer.status_code == 400 and "/v2/write/rephrase is not served here" in answer.json()["message"]


def test_languages_and_usage(client):
    assert [entry["language"] for entry in client.get("/v2/languages").json()] == ["DE", "EN", "FR"]
    targets = client.get("/v2/languages", params={"type": "target"}).json()
    assert targets[1] == {"language": "EN", "name": "English", "supports_formality": False}
    translate(client, text=["Hund"], source_lang="DE")
    assert client.get("/v2/usage").json()["character_count"] == 4


def test_text_without_split_sentences_is_one_sentence(client, model):
    answer = translate(client, text=["Ein Hund.\nEine Katze."], source_lang="DE", split_sentences="0").json()
    assert answer["translations"][0]["text"] == "EIN HUND. EINE KATZE."
    [chunk] = model.chunks
    assert (chunk.texts, chunk.split_sentences) == (("Ein Hund. Eine Katze.",), False)


def test_characters_of_a_form_are_counted_as_utf_8(client):
    content, kind = "text=Ein Hund läuft.&source_lang=DE&target_lang=EN", "application/x-www-form-urlencoded"
    answer = client.post("/v2/translate", content=content.encode(), headers={"content-type": kind}).json()
    assert answer["translations"][0] == {
        "detected_source_language": "DE", "text": "EIN HUND LÄUFT.", "billed_characters": 15,
    }  # fmt: skip


def test_text_in_the_target_language_stays_as_it_is(client):
    [entry] = translate(client, text="The dog runs in the park.").json()["translations"]
    assert (entry["text"], entry["detected_source_language"]) == ("The dog runs in the park.", "EN")


def test_document_cannot_be_downloaded_as_a_file_of_the_other_api(serve):
    with serve() as client:
        fields, files = {"source_lang": "DE", "target_lang": "EN-US"}, {"file": ("a.txt", b"Hund")}
        document = client.post("/v2/document", data=fields, files=files).json()
        assert client.get(f"/download_file/{document['document_id']}.a.txt").status_code == 404


@pytest.mark.parametrize("field", ["ignore_tags", "splitting_tags", "glossary_ids"])
@pytest.mark.parametrize("value", [True, 1, {"a": "b"}, [1], [["a"]], None])
def test_names_of_another_kind_are_refused(client, field, value):
    answer = translate(client, text=["a"], source_lang="DE", tag_handling="xml", **{field: value})
    assert answer.status_code == (200 if value is None else 400)


def test_document_is_sent_watched_and_downloaded_once(serve):
    with serve() as client:
        fields, files = {"source_lang": "DE", "target_lang": "EN-US"}, {"file": ("a.html", b"<p>ein <b>Hund</b></p>")}
        document = client.post("/v2/document", data=fields, files=files).json()
        address, key = f"/v2/document/{document['document_id']}", {"document_key": document["document_key"]}
        for _ in range(100):
            status = client.post(address, json=key).json()
            if status["status"] == "done":
                break
        assert status["billed_characters"] == len("ein Hund")
        assert client.post(f"{address}/result", json={"document_key": "0" * 64}).status_code == 404
        assert client.post(f"{address}/result", json=key).content == b"<p>EIN <b>HUND</b></p>"
        assert client.post(f"{address}/result", json=key).status_code == 404
