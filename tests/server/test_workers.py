"""The processes that translate on one machine: replaced when they die, ended with the server; here without models."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import psutil
import pytest

pytest.importorskip("fastapi_offline")

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.server import worker, workers
from hf_vaswani.server.accounts import APIError
from hf_vaswani.server.arguments import ServerArguments
from hf_vaswani.server.catalog import Pair
from hf_vaswani.server.messages import TextError
from hf_vaswani.server.workers import Workers

# What the processes run: a model that writes in capitals, and does what some texts say.
STUB = """
import sys; sys.path[:], sys.argv[:] = {!r}, ["hf-vaswani"]
import asyncio, os, signal
from pathlib import Path
from hf_vaswani.errors import InputError
from hf_vaswani.server import worker
from hf_vaswani.server.catalog import Pair
from hf_vaswani.server.messages import TextError
from hf_vaswani.text.languages import NO_LANGUAGES

class Translator:
    async def translate(self, text):
        if text == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if text == "odd":
            raise TextError("it is odd")
        if text == "bug":
            raise ZeroDivisionError("a bug")
        try:
            await asyncio.sleep(60 if text == "wait" else 0)
        except asyncio.CancelledError:
            Path(folder, "cancelled").touch()
            raise
        print("what libraries print")
        return text.upper(), os.getpid()

    async def check(self):
        return True

    async def reload(self, version):
        return os.getpid(), version != "old"

def inspect_model(model, arguments):
    global folder
    folder = model.path
    if Path(folder, "wrong").exists():
        raise InputError(folder + " is damaged")
    return worker.Inspection({{Pair(Path(folder).name[:2], "en"): NO_LANGUAGES}}, None, "old")

def open_model(model, arguments):
    if Path(model.path, "damaged").exists():
        raise InputError("it is damaged now")
    if Path(model.path, "deadly").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    globals()["folder"] = model.path
    return Translator()

worker.inspect_model, worker.open_model = inspect_model, open_model
worker.main()
"""


@pytest.fixture(autouse=True)
def stub(monkeypatch):
    monkeypatch.setattr(worker, "CODE", STUB)
    monkeypatch.setattr(workers, "PAUSE", 0.01)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "de"
    folder.mkdir()
    return folder


@asynccontextmanager
async def opened(*folders, **arguments):
    own = Workers(ServerArguments(models=list(map(str, folders)), **arguments))
    try:
        await own.open()
        yield own
    finally:
        await own.close()


def run(test, *folders, **arguments):
    """The result of a coroutine function that is given the processes of these models."""

    async def run():
        async with opened(*folders, **arguments) as own:
            return await test(own)

    return asyncio.run(run())


async def eventually(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def test_results_and_errors_come_back_to_their_callers(folder):
    async def test(own):
        translate = own.handles["de"].translate.remote
        return await asyncio.gather(*map(translate, ["a", "odd", "b", "bug"]), return_exceptions=True)

    (first, _), odd, (second, _), bug = run(test, folder)
    assert (first, second) == ("A", "B")
    assert isinstance(odd, TextError) and str(odd) == "it is odd"
    assert type(bug) is RuntimeError and "ZeroDivisionError: a bug" in str(bug.__cause__)


def test_killed_process_fails_its_requests_and_another_one_takes_its_place(folder, capsys):
    async def test(own):
        model = own.handles["de"]
        _, first = await model.translate.remote("a")
        waiting = asyncio.ensure_future(model.translate.remote("wait"))
        await asyncio.sleep(0.1)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(APIError, match="being started; try again") as error:
            await waiting
        assert error.value.status == 503
        assert (await model.translate.remote("b"))[0] == "B" and await model.check.remote()
        assert (await model.translate.remote("b"))[1] != first

    run(test, folder)
    assert f"A process of {folder} was killed (SIGKILL); another one takes its place." in capsys.readouterr().err


def test_request_that_kills_each_process_does_not_end_the_server(folder):
    async def test(own):
        for _ in range(workers.STARTS + 1):
            with pytest.raises(APIError):
                await own.handles["de"].translate.remote("die")
        assert (await own.handles["de"].translate.remote("a"))[0] == "A"
        assert own.failure is None

    run(test, folder)


@pytest.mark.parametrize("how, message", [("damaged", "it is damaged now"), ("deadly", "was killed (SIGKILL)")])
def test_model_that_cannot_be_opened_any_more_is_a_failure_after_some_tries(folder, how, message):
    async def test(own):
        _, number = await own.handles["de"].translate.remote("a")
        (folder / how).touch()
        os.kill(number, signal.SIGKILL)
        await eventually(lambda: own.failure)
        with pytest.raises(APIError, match="cannot be opened any more"):
            await own.handles["de"].translate.remote("a")
        return str(own.failure)

    assert run(test, folder) in (
        f"{folder}: {message}",
        f"{folder}: the process that should translate with it {message}",
    )


def test_failing_starts_are_all_reported_and_leave_no_process(folder, tmp_path):
    for name in ("fr", "es"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "wrong").touch()

    async def test(own):
        raise AssertionError("it was opened")

    with pytest.raises(InputError) as error:
        run(test, folder, tmp_path / "fr", tmp_path / "es")
    assert str(error.value) == f"{tmp_path / 'fr'} is damaged\n{tmp_path / 'es'} is damaged"
    assert not [child for child in psutil.Process().children() if "hf_vaswani" in " ".join(child.cmdline())]


def test_command_ends_with_the_error_of_a_model_that_cannot_be_served(folder, capsys):
    (folder / "wrong").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert main(["serve", str(folder), "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"error: {folder} is damaged\n"


def test_two_models_for_one_pair_are_refused(folder, tmp_path):
    (tmp_path / "de2").mkdir()
    with pytest.raises(
        InputError, match=f"{folder} and {tmp_path / 'de2'} both translate de to en; serve one of them"
    ):
        run(None, folder, tmp_path / "de2")


def test_replicas_share_the_requests_and_are_all_reloaded(folder):
    async def test(own):
        model = own.handles["de"]
        found = [asyncio.ensure_future(model.translate.remote("wait")) for _ in range(3)]
        await asyncio.sleep(0.2)
        assert [len(one.calls) for one in model.ready] == [1, 1, 1]
        assert len({one.process.pid for one in model.ready}) == 3
        for waiting in found:
            waiting.cancel()
        assert await model.reload("new") and not await model.reload("old")
        catalog, changed = await own.reload()
        return catalog.routes.keys(), changed

    pairs, changed = run(test, folder, replicas=3)
    assert list(pairs) == [Pair("de", "en")] and changed == []


def test_request_that_is_given_up_is_cancelled_in_its_process(folder):
    async def test(own):
        waiting = asyncio.ensure_future(own.handles["de"].translate.remote("wait"))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await eventually((folder / "cancelled").exists)
        assert [one.calls for one in own.handles["de"].ready] == [{}]

    run(test, folder)


def test_more_processes_are_started_under_load_and_end_when_they_are_idle(folder, monkeypatch):
    monkeypatch.setattr(workers, "MANY_CHUNKS", 2)
    monkeypatch.setattr(workers, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.5)

    async def test(own):
        model = own.handles["de"]
        waiting = [asyncio.ensure_future(model.translate.remote("wait")) for _ in range(6)]
        await eventually(lambda: len(model.ready) == 2)
        assert len(model._started) == 2
        await asyncio.sleep(0.3)
        for one in waiting:
            one.cancel()
        await eventually(lambda: len(model._started) == 1)
        assert (await model.translate.remote("a"))[0] == "A"

    run(test, folder, max_replicas=2)


def test_process_that_does_not_answer_is_replaced(folder, monkeypatch):
    monkeypatch.setattr(workers, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 2)

    async def test(own):
        model = own.handles["de"]
        _, number = await model.translate.remote("a")
        os.kill(number, signal.SIGSTOP)
        await eventually(lambda: model.ready and model.ready[0].process.pid != number)
        assert (await model.translate.remote("a"))[0] == "A"

    run(test, folder)


def test_too_many_requests_are_refused(folder, monkeypatch):
    monkeypatch.setattr(workers, "MOST_CHUNKS", 2)

    async def test(own):
        waiting = [asyncio.ensure_future(own.handles["de"].translate.remote("wait")) for _ in range(2)]
        await asyncio.sleep(0.1)
        with pytest.raises(APIError, match="Too many requests are waiting") as error:
            await own.handles["de"].translate.remote("a")
        assert error.value.status == 429
        for one in waiting:
            one.cancel()

    run(test, folder)


def test_processes_end_with_a_server_that_is_killed(folder):
    code = f"""if True:
        import sys; sys.argv[0] = "hf-vaswani"
        import asyncio
        from hf_vaswani.server import worker
        from hf_vaswani.server.arguments import ServerArguments
        from hf_vaswani.server.workers import Workers
        worker.CODE = {STUB!r}
        async def main():
            own = Workers(ServerArguments(models=[{str(folder)!r}], replicas=2))
            await own.open()
            asyncio.create_task(own.handles["de"].translate.remote("wait"))
            await asyncio.sleep(0.1)
            print(*(one.process.pid for one in own.handles["de"].ready), flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        children = [psutil.Process(int(number)) for number in server.stdout.readline().split()]
        assert len(children) == 2 and all(child.is_running() for child in children)
        server.kill()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive


def test_threads_and_gpus_are_shared_among_processes(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)

    def gpus(each):
        arguments = ServerArguments(models=["a", "b"], replicas=2, gpus=each)
        return [arguments.environment(number)["CUDA_VISIBLE_DEVICES"] for number in range(4)]

    assert gpus(0) == ["", "", "", ""] and gpus(1) == ["0", "1", "2", "3"]
    assert gpus(0.5) == ["0", "0", "1", "1"] and gpus(2) == ["0,1", "2,3", "4,5", "6,7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert gpus(0.5) == ["3", "3", "5", "5"]
    assert ServerArguments(models=["a", "b"], replicas=2).environment(0)["OMP_NUM_THREADS"] == "2"


def test_process_that_clients_reach_imports_neither_torch_nor_transformers_nor_ray():
    code = """if True:
        import sys; sys.argv[0] = "hf-vaswani"
        from types import SimpleNamespace
        from starlette.testclient import TestClient
        from hf_vaswani.cli import main
        from hf_vaswani.server import launch
        from hf_vaswani.server.accounts import Accounts, Limits
        from hf_vaswani.server.catalog import Catalog, Pair, Route
        from hf_vaswani.server.glossaries import Glossaries
        from hf_vaswani.server.messages import Pairs, Translated, Translation
        async def remote(chunk):
            if isinstance(chunk, Pairs):
                return [None] * len(chunk.texts)
            return Translated(tuple(Translation((text,)) for text in chunk.texts), 1, 1, 0.0)
        handle = SimpleNamespace(translate=SimpleNamespace(remote=remote), align=SimpleNamespace(remote=remote))
        catalog = Catalog({"m": "folder"}, {Pair("de", "en"): Route("m")})
        client = TestClient(launch.make_app(catalog, {"m": handle}, Accounts(None), Limits(), Glossaries()))
        words = {"source": "auto", "target": "en", "q": "<p>Das ist ein <b>Hund</b>.</p>", "format": "html"}
        answers = [
            client.post("/translate", json=words), client.post("/detect", json=words), client.get("/metrics"),
            client.post("/translate_file", data={**words, "source": "de"}, files={"file": ("a.md", b"*ein* Hund")}),
        ]
        assert [answer.status_code for answer in answers] == [200] * 4, [answer.text for answer in answers]
        assert main(["serve", "x", "--replicas", "3", "--max_replicas", "2"]) == 2
        print([name for name in ("torch", "transformers", "ray") if name in sys.modules])
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
