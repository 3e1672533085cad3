"""Glossaries of DeepL's API: created, changed, deleted, and obeyed by translations."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

pytest.importorskip("fastapi_offline")

from hf_vaswani.errors import InputError
from hf_vaswani.server.accounts import APIError
from hf_vaswani.server.glossaries import Dictionary, Glossaries


def table(source="de", target="en", entries="Hund\thound", kind="tsv"):
    return {"source_lang": source, "target_lang": target, "entries": entries, "entries_format": kind}


def create(client, **fields):
    return client.post("/v2/glossaries", json={"name": "animals", **table(), **fields})


def test_glossary_of_one_pair_is_created_listed_read_and_deleted(client):
    answer = create(client, source_lang="DE", target_lang="EN-US", entries="Hund\thound\nKatze\tcat")
    made = answer.json()
    assert answer.status_code == 201 and made["entry_count"] == 2 and made["ready"]
    assert (made["name"], made["source_lang"], made["target_lang"]) == ("animals", "de", "en")
    address = f"/v2/glossaries/{made['glossary_id']}"
    assert client.get("/v2/glossaries").json()["glossaries"] == [made] == [client.get(address).json()]
    assert client.get(f"{address}/entries").text == "Hund\thound\nKatze\tcat"
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404 and client.get("/v2/glossaries").json() == {"glossaries": []}


def test_csv_with_quotes_is_read(client):
    made = create(client, entries='"Hund, alt","old dog",de,en\r\nKatze,cat\r\n', entries_format="csv").json()
    entries = client.get(f"/v2/glossaries/{made['glossary_id']}/entries").text
    assert entries == "Hund, alt\told dog\nKatze\tcat"


def test_glossary_of_several_pairs_is_changed_pair_by_pair(client):
    fields = {"name": "animals", "dictionaries": [table(), table("en", "de", "dog\tHund")]}
    made = client.post("/v3/glossaries", json=fields).json()
    address = f"/v3/glossaries/{made['glossary_id']}"
    assert [entry["entry_count"] for entry in made["dictionaries"]] == [1, 1]

    merged = client.patch(address, json={"name": "pets", "dictionaries": [table(entries="Katze\tcat")]}).json()
    assert merged["name"] == "pets" and [entry["entry_count"] for entry in merged["dictionaries"]] == [2, 1]
    replaced = client.put(f"{address}/dictionaries", json=table(entries="Maus\tmouse")).json()
    assert replaced == {"source_lang": "de", "target_lang": "en", "entry_count": 1}
    pair = {"source_lang": "DE", "target_lang": "EN"}
    (found,) = client.get(f"{address}/entries", params=pair).json()["dictionaries"]
    assert found["entries"] == "Maus\tmouse"
    assert client.delete(f"{address}/dictionaries", params=pair).status_code == 204
    assert [entry["source_lang"] for entry in client.get(address).json()["dictionaries"]] == ["en"]


def test_line_breaks_and_tabs_in_cells_are_spaces_and_a_byte_order_mark_is_none_of_them(client):
    entries = '\ufeff"großer\r\nHund","big\tdog"\nKatze,cat\u2028s\n'
    made = create(client, entries=entries, entries_format="csv").json()
    found = client.get(f"/v2/glossaries/{made['glossary_id']}/entries").text
    assert found == "großer Hund\tbig dog\nKatze\tcat s"


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_two_dictionaries_of_one_pair_are_merged(client, method):
    both = [table(entries="Hund\thound"), table("DE", "EN-US", entries="Katze\tcat")]
    if method == "POST":
        made = client.post("/v3/glossaries", json={"name": "a", "dictionaries": both}).json()
    else:
        number = create(client, entries="Maus\tmouse").json()["glossary_id"]
        made = client.patch(f"/v3/glossaries/{number}", json={"dictionaries": both}).json()
    assert [one["entry_count"] for one in made["dictionaries"]] == [2 if method == "POST" else 3]


def test_glossaries_are_created_changed_and_deleted_by_many_at_once():
    stored, ended = Glossaries(), []
    dictionary = Dictionary(source_lang="de", target_lang="en", entries={"a": "b"})

    def work(number):
        for _ in range(40):
            mine = stored.create(f"{number}", [dictionary], "key")
            stored.of_account("key")
            stored.change(mine.glossary_id, "key", lambda own: own.merged(dictionary))
            stored.delete(mine.glossary_id, "key")
        ended.append(number)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))
    assert len(ended) == 16 and stored.of_account("key") == []


def test_glossary_that_is_deleted_while_it_is_changed_stays_deleted():
    stored = Glossaries()
    mine = stored.create("a", [Dictionary(source_lang="de", target_lang="en", entries={"a": "b"})], "key")
    deleting = Thread(target=stored.delete, args=(mine.glossary_id, "key"))

    def edit(glossary):
        deleting.start()
        deleting.join(0.2)
        return glossary

    with pytest.raises(APIError, match="not found"):
        stored.change(mine.glossary_id, "key", edit)
    deleting.join()
    assert stored.of_account("key") == []


@pytest.mark.parametrize("fields, message", [
    ({"entries": ""}, "there are none"),
    ({"entries": "Hund"}, "line 1 has no source and target term"),
    ({"entries": "Hund\thound\nHund\tdog"}, "line 2 repeats a source term"),
    ({"entries": "Hund\t "}, "line 1 has no source and target term"),
    ({"entries_format": "xlsx"}, "entries_format"),
    ({"target_lang": "XX"}, "target_lang XX is not supported"),
    ({"name": ""}, "name"),
])  # fmt: skip
def test_glossary_that_cannot_be_used_is_refused_and_not_kept(client, fields, message):
    answer = create(client, **fields)
    assert answer.status_code == 400 and message.lower() in answer.json()["message"].lower()
    assert client.get("/v2/glossaries").json() == {"glossaries": []}


def test_text_is_translated_with_those_terms_of_the_glossary_that_it_has(client, model):
    number = create(client, entries="Hund\thound\nKatze\tcat").json()["glossary_id"]
    fields = {"text": ["Ein Hund.", "Ein Haus."], "source_lang": "DE", "target_lang": "EN-US", "glossary_id": number}
    assert client.post("/v2/translate", json=fields).status_code == 200
    (chunk,) = model.chunks
    assert [[entry.targets for entry in own.entries] for own in chunk.glossaries] == [[("hound",)], []]


def test_documents_and_markup_obey_glossaries_too(client, model):
    number = create(client).json()["glossary_id"]
    fields = {"source_lang": "DE", "target_lang": "EN", "glossary_ids": number}
    client.post("/v2/document", data=fields, files={"file": ("a.txt", b"Ein Hund")})
    client.post("/v2/translate", json={**fields, "text": ["Ein <b>Hund</b>"], "tag_handling": "xml"})
    assert all(chunk.glossaries[0].entries for chunk in model.chunks) and model.chunks


def test_first_of_several_glossaries_counts(client, model):
    first = create(client).json()["glossary_id"]
    second = create(client, entries="Hund\tdog\nKatze\tcat").json()["glossary_id"]
    fields = {"text": ["Hund Katze"], "source_lang": "DE", "target_lang": "EN", "glossary_ids": [first, second]}
    client.post("/v2/translate", json=fields)
    assert [entry.targets for entry in model.chunks[0].glossaries[0].entries] == [("hound",), ("cat",)]


@pytest.mark.parametrize("fields, status, message", [
    ({"glossary_id": "no-such"}, 404, "Glossary not found: no-such"),
    ({"source_lang": None}, 400, "source_lang is required with a glossary"),
    ({"source_lang": "FR"}, 404, "has none from fr to en"),
])  # fmt: skip
def test_glossary_that_is_not_there_is_named(client, fields, status, message):
    number = create(client).json()["glossary_id"]
    asked = {"text": ["a"], "source_lang": "DE", "target_lang": "EN", "glossary_id": number, **fields}
    answer = client.post("/v2/translate", json=asked)
    assert answer.status_code == status and message in answer.json()["message"]


def test_glossary_belongs_to_its_account(serve):
    client = serve({"a": {}, "b": {}})
    mine, other = ({"authorization": f"DeepL-Auth-Key {key}"} for key in "ab")
    number = client.post("/v2/glossaries", json={"name": "n", **table()}, headers=mine).json()["glossary_id"]
    assert client.get(f"/v2/glossaries/{number}", headers=mine).status_code == 200
    assert client.get(f"/v2/glossaries/{number}", headers=other).status_code == 404
    assert client.get("/v2/glossaries", headers=other).json() == {"glossaries": []}
    assert client.get("/v2/glossaries").status_code == 403


def test_glossaries_in_a_folder_outlive_the_server(serve, tmp_path):
    folder = tmp_path / "glossaries"
    made, gone = (create(serve(glossaries=folder)).json() for _ in range(2))
    serve(glossaries=folder).delete(f"/v2/glossaries/{gone['glossary_id']}")
    assert serve(glossaries=folder).get("/v2/glossaries").json()["glossaries"] == [made]
    assert len(list(folder.iterdir())) == 1


def test_damaged_file_of_a_glossary_is_named(tmp_path):
    path = tmp_path / "96ab91fd-e715-41a1-adeb-5d701f84a483.json"
    path.write_text('{"name"')
    with pytest.raises(InputError, match=f"{path} is not a glossary of this server"):
        Glossaries(str(tmp_path))


def test_pairs_of_glossaries_are_those_that_are_served(client):
    pairs = client.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert {(pair["source_lang"], pair["target_lang"]) for pair in pairs} == {("de", "en"), ("en", "de"), ("fr", "en")}


@pytest.mark.parametrize(
    "fields", [{"name": "n" * 5000}, {"source_lang": "de_" + "z" * 5000}, {"entries": "a\t\ud800"}]
)
def test_glossary_with_endless_names_or_halves_of_characters_is_refused(client, fields):
    content = json.dumps({"name": "animals", **table(), **fields}).encode()
    answer = client.post("/v2/glossaries", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and len(answer.text) < 300
