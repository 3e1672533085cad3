"""Speed of the server under load, compared with the same model translating the same text in one call; how long it
takes to start and to stop, and its memory.

    python scripts/benchmarks/serving.py --model outputs/my_model --test test.de --source de --target en

Clients send a sentence each, wait for its translation, and send the next one. What they get is compared with what the
pipeline gives. `--command` adds another server with LibreTranslate's API, such as this one on Ray:

    --command "hf-vaswani serve de-en={model} --port {port} --address local"
"""

import argparse
import asyncio
import itertools
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from measuring import TreeMemory, compare, in_own_process, machine, write

CONTESTANTS = ("pipeline", "server")
SERVER = f"{sys.executable} -m hf_vaswani serve {{source}}-{{target}}={{model}} --port {{port}}"
READY_SECONDS = 400


async def load(url: str, texts: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Send texts from several clients for some seconds; the translations, and how long each request took."""
    import aiohttp

    numbers = itertools.cycle(range(len(texts)))
    found: dict[int, str] = {}
    times: list[float] = []
    wrong: list[str] = []
    end = time.monotonic() + options.seconds
    order = list(range(len(texts)))

    async def client(session: aiohttp.ClientSession) -> None:
        while time.monotonic() < end:
            number = order[next(numbers)]
            body = {"q": texts[number], "source": options.source, "target": options.target}
            started = time.monotonic()
            async with session.post(f"{url}/translate", json=body) as answer:
                content = await answer.json()
            times.append(time.monotonic() - started)
            translation = content.get("translatedText")
            if translation is None:
                wrong.append(str(content))
            elif found.setdefault(number, translation) != translation:
                wrong.append(f"two translations of {texts[number]!r}")

    started = time.monotonic()
    connector = aiohttp.TCPConnector(limit=options.clients)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(client(session) for _ in range(options.clients)))
    return {"seconds": time.monotonic() - started, "found": found, "times": times, "wrong": wrong}


def measure(contestant: str, options: argparse.Namespace) -> None:
    """Measure one contestant in this process, and print the result."""
    texts = read_texts(options)
    if contestant == "pipeline":
        translate = open_pipeline(options)
        translate(texts)
        started = time.perf_counter()
        translations = translate(texts)
        speed = len(texts) / (time.perf_counter() - started)
        Path(options.folder, "expected.json").write_text(json.dumps(translations), encoding="utf-8")
        print(json.dumps({"speed": speed}))
        return
    with running(SERVER if contestant == "server" else contestant, options) as server:
        started, url, process = server
        result = asyncio.run(load(url, texts, options))
        processes = [process, *process.children(recursive=True)]
        own, *others = map(TreeMemory.memory, processes)
        stopped = time.perf_counter()
        process.terminate()
        process.wait()
        stopped = time.perf_counter() - stopped
    memory = own + sum(others)
    expected = json.loads(Path(options.folder, "expected.json").read_text(encoding="utf-8"))
    found, times = result["found"], sorted(result["times"])
    different = sum(expected[number] != translation for number, translation in found.items())
    shares = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    notes = f"{len(times):,} requests, {len(result['wrong'])} failed, {different} of {len(found)} texts differ, "
    notes += "p50 {:.0f}, p95 {:.0f}, p99 {:.0f} ms, ".format(*(1000 * shares[n - 1] for n in (50, 95, 99)))
    notes += f"{started:.1f} s to the first translation, {stopped:.1f} s to the end, "
    notes += f"{1 + len(others)} processes, {own:.0f} MiB in the first"
    if result["wrong"]:
        print(result["wrong"][0], file=sys.stderr)
    print(json.dumps({"speed": len(times) / result["seconds"], "memory": memory, "notes": notes}))


@contextmanager
def running(command: str, options: argparse.Namespace) -> Iterator[tuple[float, str, psutil.Process]]:
    """Run a server while the block does: the seconds until its first translation, its address, and its process."""
    port, started = free_port(), time.perf_counter()
    words = shlex.split(command.format(**vars(options), port=port))
    process = psutil.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        body = json.dumps({"q": "a", "source": options.source, "target": options.target}).encode()
        request = urllib.request.Request(f"{url}/translate", body, {"content-type": "application/json"})
        while True:
            if process.poll() is not None or time.perf_counter() - started > READY_SECONDS:
                raise SystemExit(f"{command} has not started")
            try:
                with urllib.request.urlopen(request, timeout=READY_SECONDS):
                    break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        yield time.perf_counter() - started, url, process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def open_pipeline(options: argparse.Namespace):
    from transformers import pipeline

    import hf_vaswani  # noqa: F401 - registers the pipeline

    translator = pipeline("translation", model=options.model)
    return lambda texts: [entry["translation_text"] for entry in translator(texts)]


def read_texts(options: argparse.Namespace) -> list[str]:
    """Sentences of 5 to 60 words."""
    lines = Path(options.test).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if options.shortest <= len(line.split()) <= 60][: options.sentences]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of a model")
    parser.add_argument("--test", required=True, help="text to translate, a sentence a line")
    parser.add_argument("--source", required=True, help="language of the text")
    parser.add_argument("--target", required=True)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60, help="of load")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--shortest", type=int, default=5, help="words of a sentence, at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--command", action="append", default=[], help="that starts another server to compare with")
    parser.add_argument("--output", type=Path, help="JSON file of all results")
    parser.add_argument("--contestant", help="measure this one here")
    parser.add_argument("--folder", help="where the expected translations are")
    options = parser.parse_args()
    if options.contestant:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        measure(options.contestant, options)
        return
    given = [f"--{name}={value}" for name, value in vars(options).items()
             if value is not None and name not in ("rounds", "command", "output", "contestant", "folder")]  # fmt: skip
    names = [*CONTESTANTS, *options.command]
    with tempfile.TemporaryDirectory() as folder:
        table = compare(
            f"Serving: {options.clients} clients, {options.seconds:g} seconds", "sentences", names, options.rounds,
            lambda name: in_own_process(__file__, *given, f"--folder={folder}", f"--contestant={name}"),
        )  # fmt: skip
    print(table.markdown())
    if options.output:
        write([table], options.output)
    print(machine(), file=sys.stderr)


if __name__ == "__main__":
    main()
