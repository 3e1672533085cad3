"""The page for people who translate, as the server serves it."""

import re

import pytest

pytest.importorskip("fastapi_offline")

FILES = {
    "": "text/html; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "marks.js": "text/javascript; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "server.css": "text/css; charset=utf-8",
    "server.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "translation.js": "text/javascript; charset=utf-8",
}


@pytest.mark.parametrize("name", FILES)
def test_file_of_the_page_is_served_with_its_type_and_asked_for_again(client, name):
    answer = client.get(f"/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, FILES[name])
    assert answer.headers["cache-control"] == "no-cache"
    again = client.get(f"/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    changed = client.get(f"/{name}", headers={"If-None-Match": '"of another version"'})
    assert (changed.status_code, changed.content) == (200, answer.content)
    head = client.head(f"/{name}")
    assert head.headers["content-length"] == str(len(answer.content))


def test_page_may_load_only_what_its_server_has(client):
    policy = re.search(r'Content-Security-Policy"\s+content="([^"]+)"', client.get("/").text)[1]
    rules = {name: values for name, *values in (rule.split() for rule in policy.split(";"))}
    assert rules == {
        "default-src": ["'none'"], "script-src": ["'self'"], "connect-src": ["'self'"], "style-src": ["'self'"],
        "img-src": ["'self'"], "base-uri": ["'none'"], "form-action": ["'none'"],
    }  # fmt: skip
    for name in FILES:
        addresses = set(re.findall(r"\bhttps?://[^\"'\s)]+|[\"'(]//\w", client.get(f"/{name}").text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name


def test_addresses_of_the_page_are_relative_and_served(client):
    links = re.findall(r'(?:src|href)="([^"]+)"', client.get("/").text)
    for name in FILES:
        text = client.get(f"/{name}").text
        links += re.findall(r'from "\./([^"]+)"|\bcall\("([^"]+)"', text) if name.endswith(".js") else []
    names = {name for link in links for name in ((link,) if isinstance(link, str) else link) if name}
    assert names >= {"docs", "style.css", "page.js", "translate", "translate_file", "align", "languages"}
    assert all(re.fullmatch(r"[a-z0-9_./]+", name) and name[0] not in "./" for name in names)
    assert [name for name in names if client.get(f"/{name}").status_code not in (200, 405)] == []


def test_page_of_a_server_has_nothing_of_the_offline_page(client):
    text = client.get("/").text
    assert "offline" not in text and "in your browser" not in text and "manifest" not in text
    for name in ("worker.js", "search.js", "service_worker.js", "browser.js", "manifest.webmanifest"):
        assert client.get(f"/{name}").status_code == 404
