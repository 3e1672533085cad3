"""The third-party code that a web page runs: the tokenizer of transformers.js, and ONNX Runtime for WebAssembly.

It comes from two npm packages, both of which `npm install @huggingface/transformers` installs. It is taken from a
`node_modules` folder, or fetched by npm, and copied into the page, which therefore loads nothing from elsewhere.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, reason
from ..files import read_json

RUNTIME_FOLDER = "runtime"
NODE_MODULES, PACKAGE_FILE, LICENSE_FILE = "node_modules", "package.json", "LICENSE"
SECONDS = 600  # time limit for npm


@dataclass(frozen=True)
class Package:
    """An npm package.

    Attributes:
        version: the version that npm fetches.
        usable: a pattern that the start of a version must match for the page to use it.
        files: path in the package → name in the page. Not all hosts know that `.mjs` is JavaScript.
        digests: the SHA-256 of each of these files in `version`, in the same order.
    """

    name: str
    version: str
    usable: str
    files: dict[str, str]
    digests: tuple[str, ...]

    @property
    def specification(self) -> str:
        return f"{self.name}@{self.version}"


PACKAGES = (
    Package(
        "@huggingface/tokenizers",
        "0.2.0",
        r"0\.2\.",
        {"dist/tokenizers.min.mjs": "tokenizers.js"},
        ("258e46332101335ce8d95aed7745b19ac3b46d37f3e159a89cf894c2ea9b1d3a",),
    ),
    Package(
        "onnxruntime-web",
        "1.30.0",
        r"1\.(2[2-9]|[3-9]\d)\.",
        {
            "dist/ort.wasm.min.mjs": "onnxruntime.js",
            "dist/ort-wasm-simd-threaded.mjs": "onnxruntime-wasm.js",
            "dist/ort-wasm-simd-threaded.wasm": "onnxruntime.wasm",
        },
        (
            "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
            "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
            "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
        ),
    ),
)
INSTALL = f"npm install --ignore-scripts {' '.join(package.specification for package in PACKAGES)}"


def find_runtime(given: str | Path | None = None) -> Path | None:
    """Find the `node_modules` folder to copy from; `None` if npm is installed and has to fetch the packages.

    Args:
        given: a `node_modules` folder, or a folder that contains one; by default, the one in the current folder is
            used if it has any of the packages.

    Raises:
        InputError: files are missing from the folder or wrong (lists them), or there is neither a folder nor npm.
    """
    folder = Path(given or NODE_MODULES)
    if given is None and not any((folder / package.name).is_dir() for package in PACKAGES):
        if shutil.which("npm"):
            return None
        raise InputError(
            f"A web page needs two npm packages, but npm is not installed. Install Node.js, or run `{INSTALL}` on "
            "another machine, copy its node_modules folder here, and pass it with --runtime FOLDER."
        )
    if (folder / NODE_MODULES).is_dir():
        folder = folder / NODE_MODULES
    check_runtime(folder)
    return folder


def check_runtime(folder: Path) -> None:
    """Raise an `InputError` that lists what is missing or wrong in a `node_modules` folder."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Specify a node_modules folder, as created by: {INSTALL}")
    if errors := [error for package in PACKAGES for error in _errors(folder / package.name, package)]:
        raise InputError.of([f"{error}. Install it with: {INSTALL}" for error in errors])


def _errors(folder: Path, package: Package) -> list[str]:
    if not (folder / PACKAGE_FILE).is_file():
        return [f"{folder.parent if '/' not in package.name else folder.parents[1]} has no {package.name}"]
    version = str(read_json(folder / PACKAGE_FILE).get("version"))
    if not re.match(package.usable, version):
        return [f"{folder} is version {version}, but a web page needs {package.version}"]
    missing = [name for name in package.files if not (folder / name).is_file()]
    if missing:
        return [f"{folder} has no {' and no '.join(missing)}"]
    if version != package.version:
        return []
    return [
        f"{folder / name} does not match version {version}: it is damaged or was modified"
        for name, digest in zip(package.files, package.digests, strict=True)
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest
    ]


@contextmanager
def fetched_runtime(folder: Path | None) -> Iterator[Path]:
    """Yield the folder that `find_runtime` found, or else a temporary one with the packages fetched by npm.

    Raises:
        InputError: npm cannot fetch the packages.
    """
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as name:
        command = [shutil.which("npm") or "npm", *INSTALL.split()[1:], "--loglevel=error", "--prefix", name]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            lines = (getattr(error, "stderr", None) or reason(error)).strip().splitlines()
            raise InputError(
                f"npm cannot fetch {' and '.join(package.specification for package in PACKAGES)}: {lines[0]}. On a "
                f"machine with a connection, run `{INSTALL}`, then pass its node_modules folder with --runtime FOLDER."
            ) from None
        check_runtime(Path(name) / NODE_MODULES)
        yield Path(name) / NODE_MODULES


def copy_runtime(source: Path, page: Path) -> None:
    """Copy the files of the packages into a page, with their licenses, versions and digests.

    Args:
        source: a `node_modules` folder that has passed `check_runtime`.
    """
    target = page / RUNTIME_FOLDER
    target.mkdir()
    packages = []
    for package in PACKAGES:
        folder = source / package.name
        about = read_json(folder / PACKAGE_FILE)
        for name, new in package.files.items():
            shutil.copyfile(folder / name, target / new)
        if (folder / LICENSE_FILE).is_file():
            shutil.copyfile(folder / LICENSE_FILE, target / f"{LICENSE_FILE}.{package.name.rpartition('/')[2]}")
        digests = {new: hashlib.sha256((target / new).read_bytes()).hexdigest() for new in package.files.values()}
        files = {new: {"from": name, "sha256": digests[new]} for name, new in package.files.items()}
        packages.append({**{key: about.get(key) for key in ("name", "version", "license")}, "files": files})
    (target / "packages.json").write_text(json.dumps(packages, indent=2) + "\n", encoding="utf-8")
