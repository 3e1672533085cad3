"""Requests as programs send them that have LibreTranslate or DeepL among their services."""

WORDS = "Das ist ein kleiner Hund."


def test_mastodon_sends_a_list_of_html_in_any_language(client):
    body = {
        "q": [f"<p>{WORDS}</p>", "", "<p>Hallo <span>Welt</span></p>"],
        "source": "auto",
        "target": "en",
        "format": "html",
    }
    answer = client.post("/translate", json={**body, "api_key": ""}).json()
    assert answer["translatedText"] == [f"<p>{WORDS.upper()}</p>", "", "<p>HALLO <span>WELT</span></p>"]
    assert [entry["language"] for entry in answer["detectedLanguage"]] == ["de"] * 3


def test_weblate_protects_placeholders_by_tags(client):
    headers = {"Authorization": "DeepL-Auth-Key k"}
    body = {"text": ['Datei <x id="7"></x> von <x id="9"></x> gelesen'], "source_lang": "DE", "target_lang": "EN"}
    options = {"formality": "default", "tag_handling": "xml", "ignore_tags": ["x"]}
    answer = client.post("/v2/translate", json=body | options, headers=headers).json()
    assert answer["translations"][0]["text"] == 'DATEI <x id="7"></x> VON <x id="9"></x> GELESEN'
    codes = {
        entry["language"] for entry in client.get("/v2/languages", params={"type": "target"}, headers=headers).json()
    }
    assert "EN" in codes


def test_rocket_chat_sends_a_form_and_reads_the_languages(client):
    answer = client.post(
        "/translate", data={"q": WORDS, "source": "auto", "target": "en", "api_key": "", "format": "text"}
    )
    assert answer.json()["translatedText"] == WORDS.upper()
    assert {entry["code"] for entry in client.get("/languages", params={"api_key": ""}).json()} == {"de", "en", "fr"}
