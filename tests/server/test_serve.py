"""`hf-vaswani serve` with real processes: it answers as the pipeline does, and survives kills and changes."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import yaml
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError

pytest.importorskip("fastapi_offline")

from hf_vaswani.server.catalog import read_catalog

from ..conftest import tiny_model, word_tokenizer

TEXTS = [f"w{n % 36} w{n * 7 % 36} w{n * 5 % 31}" for n in range(40)]
LIMITS = {"max_new_tokens": 6}


def save(folder: Path, seed: int = 0) -> None:
    import torch
    from transformers import PreTrainedTokenizerFast

    from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS

    model = tiny_model()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.generation_config.update(**LIMITS)
    model.save_pretrained(folder)
    words = word_tokenizer([f"w{i}" for i in range(36)])
    PreTrainedTokenizerFast(
        tokenizer_object=words, model_input_names=["input_ids", "attention_mask"], **SPECIAL_TOKENS
    ).save_pretrained(folder)


def expected(folder: Path) -> list[str]:
    translator = pipeline("translation", model=str(folder), engine="torch")
    return [entry["translation_text"] for entry in translator(TEXTS)]


class Server:
    """A running `hf-vaswani serve`."""

    def __init__(self, folder: Path, home: Path, *options: str):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.output = home / "output.txt"
        command = [sys.executable, "-m", "hf_vaswani", "serve", f"de-en={folder}", "--port", str(self.port), *options]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [*command, "--log_file", str(home / "log.jsonl")], stdout=output, stderr=output
            )
        self.wait_for("Serving ", 400)

    def wait_for(self, words: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while words not in self.output.read_text():
            assert self.process.poll() is None and time.monotonic() < end, self.output.read_text()
            time.sleep(0.1)

    def translate(self, q):
        body = json.dumps({"q": q, "source": "de", "target": "en"}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/translate", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["translatedText"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    save(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    server = Server(folder, tmp_path_factory.mktemp("server"))
    yield server
    server.process.kill()


def test_answers_of_many_clients_are_the_pipelines(server, folder):
    found = expected(folder)
    assert len(set(found)) > 5
    assert server.translate(TEXTS) == found
    with ThreadPoolExecutor(16) as clients:
        assert list(clients.map(server.translate, TEXTS * 3)) == found * 3


def test_only_the_process_that_translates_has_loaded_torch(server):
    fields = {"source": "de", "target": "en"}
    parts = [f'--X\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{fields[name]}\r\n' for name in fields]
    parts.append('--X\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n*w1* w2\r\n--X--\r\n')
    headers = {"content-type": "multipart/form-data; boundary=X"}
    address = f"http://127.0.0.1:{server.port}/translate_file"
    with urllib.request.urlopen(
        urllib.request.Request(address, "".join(parts).encode(), headers), timeout=60
    ) as answer:
        assert "translatedFileUrl" in json.load(answer)
    own = psutil.Process(server.process.pid)
    processes = [own, *own.children(recursive=True)]
    assert len(processes) > 3  # those that read documents, too
    with_torch = [one for one in processes if any("libtorch" in entry.path for entry in one.memory_maps())]
    assert len(with_torch) == 1 and with_torch != [own]


@pytest.mark.slow
def test_killed_process_is_replaced(server, folder):
    [worker] = [child for child in psutil.Process(server.process.pid).children(recursive=True)
                if "hf_vaswani.server.worker" in " ".join(child.cmdline())]  # fmt: skip
    worker.kill()
    end = time.monotonic() + 60
    while True:
        try:
            answer = server.translate(TEXTS[0])
            break
        except urllib.error.HTTPError as error:
            assert error.code == 503 and time.monotonic() < end
            time.sleep(0.2)
    assert answer == expected(folder)[0]


def test_changed_model_is_opened_without_losing_a_request(server, folder):
    before, found = expected(folder), []
    save(folder, seed=1)
    after = expected(folder)
    assert before != after
    server.process.send_signal(signal.SIGHUP)
    while "opened again" not in server.output.read_text() or len(found) < 20:
        found.append(server.translate(TEXTS[0]))
        assert len(found) < 5000, server.output.read_text()
    assert {*found} <= {before[0], after[0]}
    assert server.translate(TEXTS) == after


def test_stopped_server_finishes_what_is_under_way(server, folder):
    texts = [f"{text} w{n % 36}" for n, text in enumerate(TEXTS * 100)]
    with ThreadPoolExecutor(1) as clients:
        answer = clients.submit(server.translate, texts)
        time.sleep(0.5)
        server.process.terminate()
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert len(answer.result(timeout=120)) == len(texts)
    assert server.process.wait(timeout=10) == 0  # a second on a machine that is not busy
    assert not psutil.wait_procs(children, timeout=5)[1]


def test_server_on_ray_answers_reloads_and_finishes_what_is_under_way(folder, tmp_path):
    pytest.importorskip("ray.serve")
    server = Server(folder, tmp_path, "--address", "local")
    try:
        assert server.translate(TEXTS) == expected(folder)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("no model had changed", 60)
        texts = [f"{text} w{n % 36}" for n, text in enumerate(TEXTS * 50)]
        with ThreadPoolExecutor(1) as clients:
            answer = clients.submit(server.translate, texts)
            time.sleep(0.5)
            server.process.terminate()
            assert len(answer.result(timeout=120)) == len(texts)
        assert server.process.wait(timeout=60) == 0
        assert "could not be waited for" not in server.output.read_text()
    finally:
        server.process.kill()


@pytest.mark.parametrize("options, message", [
    (["de-en={model}", "--port", "{port}"], "Nothing can be served on 127.0.0.1, port"),
    (["de-en={model}", "--keys", "{keys}"], "other users may read it"),
    (["de-en={model}", "--replicas", "3", "--max_replicas", "2"], "--max_replicas 2 is less than"),
    (["de-en={model}", "--glossaries", "{keys}"], "keys.json is a file; glossaries are kept in a folder"),
    (["de-en={model}", "--keep", "urls", "--print_config"], "'urls' is not one of code, url"),
    (["de-en={model}", "de-en={model}", "--print_config"], "is named twice"),
])  # fmt: skip
def test_wrong_call_is_one_line_before_anything_starts(folder, tmp_path, capsys, options, message):
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    keys.chmod(0o644)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        values = {"model": folder, "port": taken.getsockname()[1], "keys": keys}
        assert main(["serve", *(option.format(**values) for option in options)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize("models, message", [
    (["nowhere"], "nowhere"),
    (["{model}"], "does not say what it translates. Name its languages: de-en="),
    (["de-en={model}", "de-en={copy}"], "both translate de to en"),
])  # fmt: skip
def test_model_that_cannot_be_served_is_named(folder, tmp_path, models, message):
    shutil.copytree(folder, tmp_path / "copy")
    with pytest.raises(InputError, match=message):
        read_catalog([model.format(model=folder, copy=tmp_path / "copy") for model in models])


def test_config_file_is_one_that_ray_serve_accepts(folder, capsys):
    schema = pytest.importorskip("ray.serve.schema")
    assert main(["serve", f"de-en={folder}", "--replicas", "2", "--print_config"]) == 0
    config = schema.ServeDeploySchema.model_validate(yaml.safe_load(capsys.readouterr().out))
    [application] = config.applications
    assert application.import_path == "hf_vaswani.server.application:build"
    assert application.args == {"models": [f"de-en={folder}"], "replicas": 2}
