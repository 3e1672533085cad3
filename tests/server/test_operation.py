"""Keys, limits, metrics, and what happens when something fails."""

import asyncio
import json
import logging
import re

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.server import api
from hf_vaswani.server.accounts import Account, read_accounts
from hf_vaswani.server.messages import TextError

HUND = {"q": "Hund", "source": "de", "target": "en"}


def test_key_is_needed_once_there_are_keys(serve):
    client = serve({"k1": {}})
    assert client.post("/translate", json=HUND).status_code == 403
    assert client.post("/translate", json={**HUND, "api_key": "wrong"}).json() == {"error": "Invalid API key"}
    assert client.post("/translate", json={**HUND, "api_key": "k1"}).status_code == 200
    fields = {"text": ["Hund"], "source_lang": "DE", "target_lang": "EN-US"}
    statuses = [
        client.post("/v2/translate", json=fields, headers={"Authorization": f"DeepL-Auth-Key {key}"}).status_code
        for key in ("k2", "k1")
    ]
    assert statuses == [403, 200]


def test_quota_counts_characters_of_both_apis(serve):
    client = serve({"k": {"characters": 10}})
    assert client.post("/translate", json={**HUND, "api_key": "k"}).status_code == 200
    header = {"Authorization": "DeepL-Auth-Key k"}
    assert client.get("/v2/usage", headers=header).json() == {"character_count": 4, "character_limit": 10}
    fields = {"text": ["Hunde da"], "source_lang": "DE", "target_lang": "EN-US"}
    assert client.post("/v2/translate", json=fields, headers=header).status_code == 456
    assert client.post("/translate", json={**HUND, "q": "Hunde da", "api_key": "k"}).status_code == 403


def test_requests_of_a_minute_are_limited(serve):
    client = serve({"k": {"requests_per_minute": 2}})
    statuses = [client.post("/translate", json={**HUND, "api_key": "k"}).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


@pytest.mark.parametrize("limits, texts, message", [
    ({"characters": 5}, ["Hunde", "da"], "7 characters exceed the text limit of 5"),
    ({"texts": 1}, ["Hunde", "da"], "2 texts exceed the limit of 1"),
    ({"body": 10}, ["a" * 70_000], "the body has more than 65,546 bytes"),
])  # fmt: skip
def test_large_request_is_refused(serve, limits, texts, message):
    answer = serve(**limits).post("/translate", json={**HUND, "q": texts})
    assert answer.status_code in (400, 413) and message in answer.json()["error"]


def test_request_that_takes_too_long_is_ended(serve, model):
    model.seconds = 5
    answer = serve(seconds=0.05).post("/translate", json=HUND)
    assert answer.status_code == 503 and "more than 0.05 seconds" in answer.json()["error"]


def test_large_request_is_cut_into_chunks_in_order(client, model):
    texts = [f"t{number}" for number in range(1000)]
    answer = client.post("/translate", json={**HUND, "q": texts}).json()["translatedText"]
    assert answer == [text.upper() for text in texts]
    assert max(len(chunk.texts) for chunk in model.chunks) == 32


def test_unforeseen_error_is_answered_and_does_not_show_its_text(serve, model):
    async def fail(chunk):
        raise ZeroDivisionError("secret")

    model.remote = fail
    answer = serve().post("/translate", json=HUND)
    assert answer.status_code == 500 and answer.json() == {"error": "The translation failed"}


def test_unknown_address_is_answered_in_the_form_of_its_api(client):
    assert client.get("/nowhere").json() == {"error": "Not Found; /docs describes all calls"}
    assert client.get("/v2/nowhere").json() == {"message": "Not Found; /docs describes all calls"}
    assert client.get("/translate").headers["allow"] == "POST"


def test_server_that_is_about_to_stop_refuses_work_but_lives(client):
    client.app.state.service.is_draining = True
    assert [client.get("/health").status_code, client.get("/ready").status_code] == [200, 503]
    assert client.post("/translate", json=HUND).status_code == 503


def test_metrics_count_requests_characters_and_tokens(client):
    client.post("/translate", json=HUND)
    lines = client.get("/metrics").text.splitlines()
    assert 'hf_vaswani_requests_total{route="/translate",status="200"} 1.0' in lines
    assert 'hf_vaswani_characters_total{source="de",target="en"} 4.0' in lines
    assert 'hf_vaswani_source_tokens_total{model="m"} 1.0' in lines


def test_each_request_is_logged_with_its_id(client, caplog):
    with caplog.at_level(logging.INFO, "hf_vaswani.server"):
        answer = client.post("/translate", json=HUND, headers={"X-Request-ID": "r1"})
    entry = json.loads(caplog.records[-1].message)
    assert answer.headers["x-request-id"] == "r1"
    assert (entry["id"], entry["path"], entry["status"]) == ("r1", "/translate", 200)


def test_log_has_no_address_that_opens_something(client, caplog):
    with caplog.at_level(logging.INFO, "hf_vaswani.server"):
        for path in ("/download_file/secret.txt", "/download_file/secret.txt/", "/v2/document/secret", "/secret"):
            client.post(path, json={"document_key": "secret"}, params={"api_key": "secret"}, follow_redirects=False)
            client.get(path, follow_redirects=False)
    assert len(caplog.records) == 8 and "secret" not in caplog.text


def test_head_is_answered_like_get_without_a_body(client):
    get, head = client.get("/languages"), client.head("/languages")
    assert head.status_code == 200 and head.headers["content-length"] == get.headers["content-length"]


def test_page_for_programs_loads_nothing_from_other_servers(client):
    page = client.get("/docs").text
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert addresses and all(address.startswith("/") for address in addresses)
    assert [client.get(address).status_code for address in addresses] == [200] * len(addresses)
    schemes = client.get("/openapi.json").json()["components"]["securitySchemes"]
    assert schemes["DeepL"]["name"] == "Authorization" and schemes["LibreTranslate"]["name"] == "api_key"


def test_pages_of_other_sites_may_translate_and_nothing_else(client):
    other = {"Origin": "https://a.example"}
    answer = client.options("/translate", headers=other)
    assert answer.status_code == 204 and answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-max-age"] == "1728000"
    assert client.post("/translate", json=HUND, headers=other).headers["access-control-allow-origin"] == "*"
    for path in ("/v2/glossaries", "/v3/glossaries", "/metrics"):
        for method in ("OPTIONS", "GET", "DELETE"):
            assert "access-control-allow-origin" not in client.request(method, path, headers=other).headers
    # A form needs no permission of the server to be sent.
    form = {"name": "a", "source_lang": "de", "target_lang": "en", "entries": "Hund\tdog", "entries_format": "tsv"}
    for headers in (other, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post("/v2/glossaries", data=form, headers=headers).status_code == 403
    for headers in ({}, {"Origin": "http://testserver"}, {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy"}):
        assert client.post("/v2/glossaries", data=form, headers=headers).status_code == 201


def test_keys_file_without_keys_lets_nobody_in(serve, tmp_path, monkeypatch):
    monkeypatch.delenv("HF_VASWANI_KEYS", raising=False)
    file = tmp_path / "keys.json"
    file.write_text("{}")
    file.chmod(0o600)
    assert read_accounts(str(file)) == {} and read_accounts(None) is None
    client = serve({})
    header = {"Authorization": "DeepL-Auth-Key "}
    answers = [
        client.post("/translate", json=HUND),
        client.post("/translate", json={**HUND, "api_key": ""}),
        client.post("/v2/translate", json={"text": ["a"], "target_lang": "EN"}, headers=header),
        client.get("/v2/glossaries"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 4
    assert client.get("/frontend/settings").json()["keyRequired"] is True
    service = client.app.state.service
    service.use(service.catalog, {})  # the last key was removed
    assert client.post("/translate", json=HUND).status_code == 403


@pytest.mark.parametrize("key", [["k"], {"k": 1}, 1, True, [], "K"])
def test_key_of_another_kind_is_unknown(serve, key):
    assert serve({"k": {}}).post("/translate", json={**HUND, "api_key": key}).status_code == 403


def test_wrong_key_is_refused_before_the_body_is_read(serve):
    async def receive():
        raise AssertionError("the body is read")

    async def send(message):
        sent.append(message)

    sent, path = [], "/translate"
    for headers, query in (([(b"authorization", b"DeepL-Auth-Key no")], b""), ([], b"api_key=no")):
        headers = [*headers, (b"content-length", b"9000")]
        scope = {"type": "http", "method": "POST", "path": path, "query_string": query, "headers": headers}
        asyncio.run(serve({"k": {}}).app(scope, receive, send))
    assert [message["status"] for message in sent if "status" in message] == [403, 403]


def test_keys_of_a_file_and_of_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "keys.json"
    file.write_text('{"a": {"characters": 5}}')
    file.chmod(0o600)
    monkeypatch.setenv("HF_VASWANI_KEYS", "b, c")
    assert read_accounts(str(file)) == {"a": Account(characters=5), "b": Account(), "c": Account()}


@pytest.mark.parametrize("content, mode, message", [
    ("{}", 0o644, "other users may read it"), ("[]", 0o600, "is not a file of keys"), ("{", 0o600, "is not a file"),
    ('{"a": {}, "b": {"letters": 1}}', 0o600, "the account of key 2 has the field 'letters'; there are name"),
    ('{"a": 5}', 0o600, "the account of key 1 is not an object"),
    ('{"a": {"characters": "many"}}', 0o600, "the account of key 1: characters must be a valid integer"),
    ('{"": {}}', 0o600, "the key '' is empty"),
    ('{"a ": {}}', 0o600, "the key 'a ' is empty, or begins or ends with a space"),
    ('{"a": {}, "a": {"characters": 1}}', 0o600, "'a' is there twice"),
])  # fmt: skip
def test_wrong_file_of_keys_is_named(tmp_path, content, mode, message):
    file = tmp_path / "keys.json"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(InputError, match=message):
        read_accounts(str(file))


def test_request_that_arrives_too_slowly_is_ended(serve):
    sent, parts = [], [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive():
        if not parts:
            await asyncio.sleep(60)
        return parts.pop()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": b"", "headers": []}
    asyncio.run(serve(seconds=0.05).app(scope, receive, send))
    assert sent[0]["status"] == 408 and b"did not arrive within 0.05 seconds" in sent[1]["body"]


def test_keys_may_be_changed_while_the_server_runs(serve):
    client = serve({"old": {}})
    service = client.app.state.service
    service.use(service.catalog, {"new": Account()})
    answers = [client.post("/translate", json={**HUND, "api_key": key}).status_code for key in ("old", "new")]
    assert answers == [403, 200]


def test_work_ends_when_the_client_hangs_up(serve, model):
    ended = []

    async def never(chunk):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(chunk.texts)

    async def receive():
        await asyncio.sleep(0.05)
        return messages.pop(0)

    model.remote = never
    body = json.dumps(HUND).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": b"", "headers": headers}
    asyncio.run(serve().app(scope, receive, None))
    assert ended == [("Hund",)]


@pytest.mark.parametrize("field", ["q", "source", "target"])
def test_half_a_surrogate_pair_is_refused(client, field):
    body = json.dumps({**HUND, field: "\ud800"}).encode()
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "surrogate" in answer.json()["error"]


def test_lines_count_as_texts(serve):
    answer = serve(texts=10).post("/translate", json={**HUND, "q": "a\n" * 11})
    assert answer.status_code == 400 and "11 lines exceed the limit of 10" in answer.json()["error"]


def test_first_page_is_for_people(client):
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html") and "<textarea" in answer.text


@pytest.mark.parametrize("failure", [TextError("it is strange"), ZeroDivisionError()])
def test_characters_of_a_request_that_fails_are_not_charged(serve, model, failure):
    async def fail(chunk):
        raise failure

    model.remote = fail
    client, header = serve({"k": {"characters": 10}}), {"Authorization": "DeepL-Auth-Key k"}
    client.post("/translate", json={**HUND, "api_key": "k"})
    client.post("/v2/translate", json={"text": ["Hund"], "source_lang": "DE", "target_lang": "EN"}, headers=header)
    client.post("/translate_file", data={**HUND, "api_key": "k"}, files={"file": ("a.txt", b"Hund")})
    assert client.get("/v2/usage", headers=header).json()["character_count"] == 0


def test_small_requests_are_read_while_large_ones_take_all_room(serve, monkeypatch):
    client = serve()
    monkeypatch.setattr(api, "MOST_BODY_BYTES", 100_000)
    client.app.state.service.body_bytes = 200_000
    assert client.post("/translate", json=HUND).status_code == 200
    answer = client.post("/translate", json={**HUND, "q": "a" * 90_000})
    assert answer.status_code == 503 and "Too many large requests" in answer.json()["error"]


def test_page_is_logged_as_answered(client, caplog):
    with caplog.at_level(logging.INFO, "hf_vaswani.server"):
        client.get("/")
        client.get("/static-offline-docs/swagger-ui.css")
    assert [json.loads(record.message)["status"] for record in caplog.records] == [200, 200]


def test_traceback_of_an_unforeseen_error_is_in_its_line_of_the_log(serve, model, caplog):
    async def fail(chunk):
        raise ZeroDivisionError("odd")

    model.remote = fail
    with caplog.at_level(logging.INFO, "hf_vaswani.server"):
        serve().post("/translate", json=HUND)
    [record] = caplog.records
    assert "ZeroDivisionError: odd" in json.loads(record.message)["error"]
