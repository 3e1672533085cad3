"""transformers' own tests of its models pass for this one, and skip no more than they do for Marian.

The source distribution of a release has those of models and configs, its repository also those of `generate()`:
`scripts/test_transformers.sh` runs them all.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import transformers
from filelock import FileLock

OWN_TESTS = Path(__file__).with_name("transformers_tests.py")
PROJECT = Path(__file__).parents[2]
RELEASE = f"transformers-{transformers.__version__}"
# What the tests in a source distribution import from folders that it lacks.
ABSENT = {
    "__init__.py": "",
    "models/__init__.py": "",
    "exporters/test_export.py": "class ExportTesterMixin:\n    pass\n",
    "generation/test_utils.py": "class GenerationTesterMixin:\n    pass\n",
    "utils/test_configuration_utils.py": (
        "config_common_kwargs = {'return_dict': False, 'output_hidden_states': True, 'output_attentions': True}\n"
    ),
}


def download(cache: Path) -> Path:
    """The source distribution of the installed transformers; skips the test where it cannot be had."""
    archive = cache / f"{RELEASE}.tar.gz"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "0", "--timeout", "10", "download"]
    options = ["--no-deps", "--no-binary", ":all:", "--dest", str(cache)]
    with FileLock(cache / "lock"):
        if not archive.exists():
            subprocess.run([*pip, *options, RELEASE.replace("-", "==")], capture_output=True, timeout=120)
    if not archive.exists():
        pytest.skip(f"pip cannot download the source distribution of {RELEASE}")
    return archive


def unpack_tests(archive: Path, folder: Path) -> None:
    """Write the tests in a source distribution, and stand-ins for what they lack, to `folder/tests`."""
    for name, contents in ABSENT.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents, encoding="utf-8")
    with tarfile.open(archive) as files:
        for member in files:
            if Path(member.name).parent.name == "tests":
                (folder / "tests" / Path(member.name).name).write_bytes(files.extractfile(member).read())


def outcomes(folder: Path, model: str, *arguments: str) -> dict[str, str]:
    """Run the tests of a model among those of transformers in a folder: name → "passed" or what else came of it."""
    tests = folder / "tests" / "models" / model
    if model == "vaswani":
        tests.mkdir()
        (tests / "__init__.py").touch()
        shutil.copyfile(OWN_TESTS, tests / f"test_modeling_{model}.py")
    report = folder / f"{model}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", f"--junitxml={report}"]
    finished = subprocess.run(
        [*command, *arguments, str(tests / f"test_modeling_{model}.py")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )
    assert finished.returncode in (0, 1), finished.stdout[-5000:] + finished.stderr[-2000:]
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        if found.get(case.get("name"), "passed") == "passed":  # a test and its subtests have one name
            found[case.get("name")] = outcome
    return found


def with_outcome(outcome: str, found: dict[str, str]) -> set[str]:
    return {name for name, value in found.items() if value == outcome}


def test_common_tests_of_models_and_configs_pass(tmp_path, request):
    pytest.importorskip("parameterized", reason="transformers' tests need it")
    unpack_tests(download(request.config.cache.mkdir("transformers")), tmp_path)
    # This one fails without the tests of `generate()`.
    found = outcomes(tmp_path, "vaswani", "-k", "not test_generation_tester_mixin_inheritance")
    assert not with_outcome("failure", found) | with_outcome("error", found)
    assert {"test_config", "test_attention_outputs", "test_hidden_states_output"} <= with_outcome("passed", found)


@pytest.mark.slow
def test_all_tests_pass_and_none_is_skipped_that_is_not_for_marian(tmp_path):
    pytest.importorskip("parameterized", reason="transformers' tests need it")
    checkout = os.environ.get("HF_VASWANI_TRANSFORMERS")
    if not checkout:
        pytest.skip("a checkout of transformers is needed: HF_VASWANI_TRANSFORMERS=FOLDER")
    shutil.copytree(Path(checkout) / "tests", tmp_path / "tests")
    for name in ("src", "utils", "conftest.py", "pyproject.toml"):
        (tmp_path / name).symlink_to(Path(checkout).absolute() / name)
    found = outcomes(tmp_path, "vaswani")
    marian = outcomes(tmp_path, "marian", "-k", "MarianModelTest")
    print(f"{len(with_outcome('passed', found))} passed, {len(with_outcome('skipped', found))} skipped; MarianMT:")
    print(f"{len(with_outcome('passed', marian))} passed, {len(with_outcome('skipped', marian))} skipped")
    assert not with_outcome("failure", found) | with_outcome("error", found)
    assert with_outcome("skipped", found) <= with_outcome("skipped", marian)
    assert "test_beam_search_generate" in with_outcome("passed", found)
