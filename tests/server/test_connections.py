"""Connections of a real HTTP server: none of its clients keeps the others waiting."""

import http.client
import json
import socket
import time
from contextlib import closing

import pytest

pytest.importorskip("fastapi_offline")

from hf_vaswani.server import connections
from hf_vaswani.server.launch import event_loop, listening

HUND = {"q": "Hund", "source": "de", "target": "en"}


@pytest.fixture
def port(serve):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with event_loop() as loop, listening(serve().app, "127.0.0.1", port, loop):
        yield port


def connect(port):
    return closing(socket.create_connection(("127.0.0.1", port), timeout=20))


def received(connection):
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def request(body, *headers):
    lines = ["POST /translate HTTP/1.1", "Host: a", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def test_client_that_sends_no_more_gets_its_answer(port, model):
    model.seconds = 0.3
    with connect(port) as connection:
        connection.sendall(request(json.dumps(HUND).encode()))
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).endswith(b'{"translatedText":"HUND"}')


def test_half_sent_headers_end_and_keep_nobody_waiting(port, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1)
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    for connection in slow:
        connection.sendall(b"GET /health HTTP/1.1\r\nX: ")
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    client.request("POST", "/translate", json.dumps(HUND), {"content-type": "application/json"})
    assert client.getresponse().status == 200
    slow[0].settimeout(20)
    assert received(slow[0]).startswith(b"HTTP/1.1 408 ")
    for connection in slow:
        connection.close()


def test_endless_headers_are_refused(port):
    with connect(port) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n" + b"X: " + b"a" * 70_000)
        assert received(connection).startswith(b"HTTP/1.1 400 ")


def test_connection_serves_one_request_after_another(port):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for _ in range(3):
        client.request("POST", "/translate", json.dumps(HUND), {"content-type": "application/json"})
        assert json.loads(client.getresponse().read()) == {"translatedText": "HUND"}
    started = time.monotonic()
    client.request("HEAD", "/languages")
    answer = client.getresponse()
    assert answer.status == 200 and answer.read() == b"" and time.monotonic() - started < 5


def test_client_that_sends_too_much_sees_why_it_is_refused(port):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for _ in range(2):  # on the same connection
        client.request("POST", "/translate", b"a" * 30_000_000, {"content-type": "application/json"})
        answer = client.getresponse()
        assert answer.status == 413 and b"the body has more than" in answer.read()


def test_client_that_reads_nothing_is_cut_off(port, monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", port))
        page = b"GET /static-offline-docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n"
        connection.sendall(page * 6)
        time.sleep(2)
        try:
            answer = received(connection)
        except ConnectionError:
            return
        assert len(answer) < 6_000_000  # of 9


def test_offer_of_another_protocol_is_ignored(port):
    offer = "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"
    with connect(port) as connection:
        connection.sendall(request(json.dumps(HUND).encode(), *offer))
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).endswith(b'{"translatedText":"HUND"}')


@pytest.mark.parametrize("beginning", [
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.1\r\n",
    b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
], ids=["after a request", "after a body"])  # fmt: skip
def test_endless_headers_are_cut_off_wherever_they_begin(port, beginning):
    with connect(port) as connection:
        connection.sendall(beginning)
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                connection.sendall(b"a:b\r\n" * 2000)


def test_connection_goes_on_after_a_request_that_was_refused_while_it_arrived(port, monkeypatch):
    monkeypatch.setattr(connections, "REFUSED_SECONDS", 0.5)
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    client.request("POST", "/translate", b"a" * 30_000_000, {"content-type": "application/json"})
    assert client.getresponse().read()
    time.sleep(1)
    client.auto_open = False  # on the same connection
    client.request("POST", "/translate", json.dumps(HUND), {"content-type": "application/json"})
    assert json.loads(client.getresponse().read()) == {"translatedText": "HUND"}
