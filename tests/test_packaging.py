"""The wheel and the sdist: what they contain, and that the wheel works without the rest of the project."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from hf_vaswani.training.recipe.bundled_recipes import SCHEMA_FILE, bundled_recipes

PROJECT = Path(__file__).parents[1]
DATA = {f"hf_vaswani/recipes/{path.name}" for path in bundled_recipes().values()} | {
    f"hf_vaswani/recipes/{SCHEMA_FILE}",
    "hf_vaswani/recipes/sweeps/paper_table3_rows.yaml",
    "hf_vaswani/py.typed",
    "hf_vaswani/hub/model_card_template.md",
    "hf_vaswani/data/sources/built_in/train.tsv.zst",
    "hf_vaswani/evaluation/beam_tree.svg.jinja",
    "hf_vaswani/evaluation/beam_tree.html.jinja",
    "hf_vaswani/app/page.css",
    "hf_vaswani/app/page.js",
    "hf_vaswani/web/icon.svg",
    "hf_vaswani/web/index.html.jinja",
    "hf_vaswani/web/server.js",
    "hf_vaswani/web/service_worker.js",
    "hf_vaswani/web/style.css",
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder with a wheel and an sdist of the project."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("packages")
    tree = folder / "tree"
    shutil.copytree(PROJECT / "hf_vaswani", tree / "hf_vaswani", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, tree)
    code = "from setuptools import build_meta as b; b.build_wheel('..'); b.build_sdist('..')"
    subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, check=True)
    return folder


def test_package_data_is_in_the_wheel_and_the_sdist(packages):
    [wheel], [source] = packages.glob("*.whl"), packages.glob("*.tar.gz")
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(source) as file:
        in_source = {name.partition("/")[2] for name in file.getnames()}
    assert in_wheel & in_source >= DATA
    modules = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "hf_vaswani").rglob("*.py")}
    assert modules <= in_wheel & in_source
    assert not [name for name in in_wheel if name.startswith(("tests/", "scripts/", "docs/"))]


@pytest.mark.slow
def test_installed_wheel_lists_its_recipes_and_trains_from_one(packages, tmp_path):
    [wheel] = packages.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    scripts = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / Path(sys.executable).name
    [site] = (tmp_path / "env").rglob("site-packages")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The dependencies, but not the package itself: .pth files in that folder are not processed.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True, env=environment)

    def run(*command) -> str:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout

    assert Path(run(python, "-c", "import hf_vaswani; print(hf_vaswani.__file__)")).is_relative_to(tmp_path)
    assert "quickstart" in run(scripts / "hf-vaswani", "recipes")
    options = ("--d_model=32", "--vocab_size=300", "--eval_sentences=0", "--test_split=null", "--max_tokens=256")
    run(scripts / "hf-vaswani", "train", "quickstart", "--max_steps=2", "--average_last=1", *options)
    assert (tmp_path / "outputs" / "quickstart" / "model.safetensors").exists()
