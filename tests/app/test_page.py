"""The page as gradio serves it: its responses, its errors, and what it must not expose."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from hf_vaswani.app import server
from hf_vaswani.app.translate import translate_text
from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.runtime import imports


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_port_in_use_is_one_error(model_folder, capsys):
    pytest.importorskip("gradio")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert main(["app", str(model_folder), "--port", str(port)]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: The page cannot be served on host 127.0.0.1, port {port}: ")


@pytest.mark.parametrize("port", ["0", "-1", "65536", "http"])
def test_invalid_port_is_rejected(port, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["app", "--port", port])
    assert exit_info.value.code == 2
    assert "argument --port: must be" in capsys.readouterr().err


def test_missing_app_extra_is_named():
    with pytest.raises(InputError, match=r'pip install "hf-vaswani\[app\]"'):
        imports.import_extra("nothing_of_this_name", "app")


@pytest.fixture
def page(model_folder, free_port):
    pytest.importorskip("gradio")
    with server.served([str(model_folder)], port=free_port) as address:
        yield address


@pytest.fixture
def client(page):
    return pytest.importorskip("gradio_client").Client(page, verbose=False)


def test_api_streams_translations(client, loaded, model_folder):
    job = client.submit(str(model_folder), None, None, "w1 w2. w3! w4 <b>w5</b>", 2, api_name="/translate")
    text, state, words, alternatives = job.result()
    steps = list(translate_text(loaded, "w1 w2. w3! w4 <b>w5</b>"))
    assert text == steps[-1].text and "Done." in state
    assert 'class="word"' in words and "&lt;" in words and "<b>" not in words
    assert alternatives.count("<tr>") == 1 + 2 * 3
    assert [output[0] for output in job.outputs()] == [step.text for step in steps]


def test_api_errors_are_readable_and_models_not_offered_are_rejected(client, model_folder):
    def error_of(*arguments) -> str:
        with pytest.raises(Exception) as error:
            client.predict(*arguments, api_name="/translate")
        assert "Traceback" not in str(error.value)
        return str(error.value)

    assert "The text is empty." in error_of(str(model_folder), None, None, " ", 1)
    assert "100,001 characters" in error_of(str(model_folder), None, None, "w" * 100_001, 1)
    assert "not in the list of choices" in error_of("/etc", None, None, "w1", 1)


def raw_response(address: str, arguments: list) -> str:
    """The server's response to a call that no client has checked."""
    body = json.dumps({"data": arguments}).encode()
    started = urlopen(Request(address, body, {"Content-Type": "application/json"}))
    return urlopen(f"{address}/{json.load(started)['event_id']}").read().decode()


def test_only_the_pages_own_files_can_be_read(page, client, model_folder, tmp_path):
    from gradio_client import handle_file

    secret = tmp_path / "secret.txt"
    secret.write_text("w1\n")
    for path in (secret, "/etc/passwd", model_folder / "config.json", Path("pyproject.toml").resolve()):
        with pytest.raises(HTTPError) as error:
            urlopen(f"{page}gradio_api/file={path}")
        assert error.value.code in (403, 404)
    # A path on the server instead of an upload.
    data = {"path": str(secret), "meta": {"_type": "gradio.FileData"}}
    outcome = raw_response(f"{page}gradio_api/call/translate_file", [str(model_folder), None, None, data])
    assert outcome.startswith("event: error") and "translated" not in outcome
    assert not list(Path(os.environ["GRADIO_TEMP_DIR"]).rglob("secret*"))
    _, translated = client.predict(str(model_folder), None, None, handle_file(secret), api_name="/translate_file")
    assert Path(translated).name == "secret.translated.txt"
    assert len(Path(translated).read_text().splitlines()) == 1


def test_page_refers_to_no_other_host_and_analytics_are_off(page):
    text = urlopen(page).read().decode()
    assert "fonts.googleapis" not in text and "cdnjs" not in text and "huggingface.co" not in text
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"


def test_uploads_are_deleted_when_the_server_stops(model_folder, free_port):
    pytest.importorskip("gradio")
    gradio_client = pytest.importorskip("gradio_client")
    with server.served([str(model_folder)], port=free_port) as address:
        folder = Path(os.environ["GRADIO_TEMP_DIR"])
        file = model_folder / "config.json"
        upload = gradio_client.handle_file(file)
        client = gradio_client.Client(address, verbose=False)
        client.predict(str(model_folder), None, None, upload, api_name="/translate_file")
        assert any(folder.rglob("config.json"))
    assert not folder.exists() and "GRADIO_TEMP_DIR" not in os.environ


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_until_a_signal_and_removes_its_uploads(model_folder, free_port, tmp_path, number):
    pytest.importorskip("gradio")
    command = [sys.executable, "-m", "hf_vaswani", "app", str(model_folder), "--port", str(free_port)]
    (uploads := tmp_path / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(uploads)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        assert line == f"Open http://127.0.0.1:{free_port}/ in a browser. Ctrl+C stops the server.\n"
        assert urlopen(Request(f"http://127.0.0.1:{free_port}/")).status == 200
        assert list(uploads.glob("hf-vaswani-app-*"))
        process.send_signal(number)
        assert process.wait(30) == 0 and process.stderr.read() == ""
        assert not list(uploads.glob("hf-vaswani-app-*"))
    finally:
        process.kill()
