"""Requests of wrong types, sizes and shapes: none gets in without a key, none breaks anything, none delays others."""

import asyncio
import json
import random
import threading
import time

import pytest

pytest.importorskip("fastapi_offline")

from hf_vaswani.server.requests import FORM, JSON, UPLOAD

ROUTES = [
    ("POST", "/translate"), ("POST", "/detect"), ("GET", "/languages"), ("POST", "/translate_file"),
    ("GET", "/download_file/x"), ("GET", "/frontend/settings"), ("POST", "/v2/translate"), ("GET", "/v2/languages"),
    ("POST", "/v2/languages"), ("GET", "/v2/usage"), ("POST", "/v2/usage"), ("POST", "/v2/document"),
    ("POST", "/v2/document/x"), ("POST", "/v2/document/x/result"), ("GET", "/v2/glossary-language-pairs"),
    ("POST", "/v2/glossaries"), ("GET", "/v2/glossaries"), ("GET", "/v2/glossaries/x"), ("DELETE", "/v2/glossaries/x"),
    ("GET", "/v2/glossaries/x/entries"), ("POST", "/v3/glossaries"), ("GET", "/v3/glossaries"),
    ("PATCH", "/v3/glossaries/x"), ("GET", "/v3/glossaries/x/entries"), ("PUT", "/v3/glossaries/x/dictionaries"),
    ("DELETE", "/v3/glossaries/x/dictionaries"), ("POST", "/v2/write/rephrase"), ("GET", "/v3/languages"),
    ("GET", "/health"), ("GET", "/ready"), ("GET", "/metrics"), ("GET", "/"), ("GET", "/docs"), ("HEAD", "/translate"),
]  # fmt: skip
# Those that anybody may call: they tell nothing of texts or accounts.
PUBLIC = ("/languages", "/frontend/settings", "/download_file/x", "/health", "/ready", "/metrics", "/", "/docs")
FIELDS = {
    "q": "ein Hund", "source": "de", "target": "en", "format": "html", "alternatives": 1, "text": ["ein Hund"],
    "source_lang": "DE", "target_lang": "EN", "tag_handling": "xml", "ignore_tags": "x", "splitting_tags": ["y"],
    "glossary_id": "x", "glossary_ids": "x,y", "split_sentences": "0", "model_type": "quality_optimized", "name": "a",
    "entries": "Hund\thound", "entries_format": "tsv", "document_key": "x", "type": "target", "formality": "default",
    "dictionaries": [{"source_lang": "de", "target_lang": "en", "entries": "a\tb", "entries_format": "tsv"}],
}  # fmt: skip
VALUES = [
    None, True, False, 0, -1, 1.5, 10**30, float("inf"), float("nan"), "", " ", "a" * 3000, "\0", "\ud800", "ä", "<a",
    "<!--", "]]>", "&#0;", "auto", "xx", [], [[]], [None], [1, "a"], ["a"] * 50, {}, {"a": 1}, {"q": ["a"]},
    "a,b,,", "../../etc/passwd", "%00", "\u202e", "a\tb\tc", "de", [{}], "1" * 400,
]  # fmt: skip
HEADERS = [
    {}, {"authorization": "DeepL-Auth-Key"}, {"authorization": "DeepL-Auth-Key wrong"}, {"authorization": "Basic k"},
    {"authorization": "Bearer \xff"}, {"x-request-id": "a" * 5000}, {"origin": "http://["}, {"origin": "null"},
    {"content-length": "-1"}, {"content-length": "x"}, {"sec-fetch-site": "cross-site"}, {"expect": "100-continue"},
]  # fmt: skip
TYPES = [
    JSON,
    FORM,
    f"{UPLOAD}; boundary=X",
    UPLOAD,
    "text/plain",
    "",
    "application/json; charset=utf-16",
    "\xff",
    FORM,
]


def body(chance, kind):
    fields = {name: value for name, value in FIELDS.items() if chance.random() < 0.7}
    for name in chance.sample(list(FIELDS), 3):
        fields[name] = chance.choice(VALUES)
    content = json.dumps(fields).encode()
    if chance.random() < 0.1:
        fields["api_key"] = fields["auth_key"] = chance.choice(VALUES)
        content = json.dumps(fields).encode()
    if kind == FORM:
        content = "&".join(f"{name}={value}" for name, value in fields.items()).encode("utf-8", "surrogatepass")
    elif kind.startswith(UPLOAD):
        part = '--X\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n{}\r\n'
        parts = [part.format(name, "", value) for name, value in fields.items()]
        parts.append(part.format("file", f'; filename="{chance.choice(["a.md", "ä.po", "a.docx", "..", ""])}"', "ein"))
        content = "".join([*parts, "--X--\r\n"]).encode("utf-8", "surrogatepass")
    if chance.random() < 0.15 and content:
        at = chance.randrange(len(content))
        content = chance.choice([content[:at], content[:at] + b"\xff\x00" + content[at:], b"[" * 2000, b"{" + content])
    return content


def request(chance):
    method, path = chance.choice(ROUTES)
    kind = chance.choice(TYPES)
    query = chance.choice([b"", b"q=a", b"api_key=wrong", b"%ff=%", b"a=b&" * 50, b"target_lang=\xff", b"type=x"])
    headers = {"content-type": kind, "host": "testserver", **chance.choice(HEADERS)}
    content = body(chance, kind) if method != "GET" or chance.random() < 0.2 else b""
    return method, path, query, headers, content


def answer(app, method, path, query, headers, content):
    """The status of a call of the application, as servers call it."""
    sent, messages = [], [{"type": "http.request", "body": content}]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "server": ("testserver", 80), "scheme": "http", "root_path": "",
    }  # fmt: skip

    async def receive():
        return messages.pop(0) if messages else await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"]


@pytest.mark.parametrize("accounts", [None, {"k": {}}], ids=["open", "with keys"])
@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_requests_of_any_shape_are_answered_and_none_gets_in_without_a_key(serve, accounts, count):
    app, chance = serve(accounts).app, random.Random(count)
    for number in range(count):
        method, path, *rest = call = request(chance)
        status = answer(app, *call)
        assert status < 500 or status == 503, (number, call)
        if accounts is not None and path not in PUBLIC:
            assert status in (400, 403, 404, 405, 413), (number, call)


LONG = [
    {"text": ["<" + "a" * 25_000], "tag_handling": "xml"}, {"text": ["<!--" * 24_000], "tag_handling": "xml"},
    {"text": ["<a " * 30_000], "tag_handling": "html"}, {"text": ["&" * 90_000], "tag_handling": "html"},
    {"text": ["a\n" * 9_000]}, {"text": ["[" * 90_000]}, {"text": [" " * 90_000 + "a"]},
]  # fmt: skip


@pytest.mark.parametrize("fields", LONG, ids=range(len(LONG)))
def test_health_is_answered_while_a_nasty_text_is_read(serve, fields):
    client = serve()
    content = {"source_lang": "DE", "target_lang": "EN", **fields}
    with client:
        other = threading.Thread(
            target=lambda: statuses.append(client.post("/v2/translate", json=content).status_code)
        )
        statuses, slowest = [], 0.0
        client.get("/health")
        other.start()
        while other.is_alive():
            started = time.monotonic()
            assert client.get("/health").status_code == 200
            slowest = max(slowest, time.monotonic() - started)
            time.sleep(0.01)
    assert statuses[0] in (200, 400) and slowest < 2  # on a busy machine; half a second alone


def test_body_of_many_lists_is_refused_at_once(serve):
    content = b'{"q":[' + b"[]," * 400_000 + b"[]]}"
    started = time.process_time()
    app = serve({"k": {}}).app
    assert answer(app, "POST", "/translate", b"", {"content-type": JSON}, content) == 400
    assert time.process_time() - started < 1
