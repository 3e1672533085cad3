"""Writes a web page that contains a model: a transformers.js folder, the page of `hf_vaswani/web`, and the runtime.

The page translates in the browser. It works at any address on any static host, since all its links are relative, and
it works offline after the first visit: its service worker keeps all files, and checks them by their digests.

transformers.js's pipeline does not return attention weights, runs a batch until its last sentence is done, and loads
twice as much code. So `worker.js` runs the graphs itself, with the tokenizer and the runtime of transformers.js.
To show which words correspond, the decoder has an additional output, the alignment, at hardly any cost.
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError, reason
from ..files import file_digest, read_json
from ..models.model_files import PAGE_FILE
from ..text.languages import NO_LANGUAGES, LanguagePair
from ..text.normalization import BLANK
from ..web.files import page_files, render
from . import transformers_js_export
from .onnx.onnx_config import DECODER, ENCODER, graph_file, stored_quantization

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
        if file_digest(folder / name) != digest
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
        digests = {new: file_digest(target / new) for new in package.files.values()}
        files = {new: {"from": name, "sha256": digests[new]} for name, new in package.files.items()}
        packages.append({**{key: about.get(key) for key in ("name", "version", "license")}, "files": files})
    (target / "packages.json").write_text(json.dumps(packages, indent=2) + "\n", encoding="utf-8")


MODEL_FOLDER = "model"
QUANTIZATION = "int8"
OFFSET = "max_length_offset"
# The widths of keys and values, which are set only if they are not d_model / heads.
WIDTHS = ("d_k", "d_v")
SERVICE_WORKER, MANIFEST = "service_worker.js", "manifest.webmanifest"
MODEL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
LANGUAGE = re.compile("[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
COLOR = "#f6f7f9"
# Suffixes of the files that the service worker keeps. Hosts need not serve a model card or a license.
KEPT_SUFFIXES = (".css", ".html", ".js", ".json", ".onnx", ".svg", ".wasm", ".webmanifest")


def write_model(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write `model/` in the folder of a page; arguments and errors are those of `transformers_js_export`.

    By default, the weights are int8.
    """
    target = folder / MODEL_FOLDER
    transformers_js_export.write(model, tokenizer, target, quantization or QUANTIZATION, with_alignment=True)
    _add_fields(target / CONFIG_NAME, {name: getattr(model.config, name) for name in WIDTHS})
    _add_fields(target / GENERATION_CONFIG_NAME, {OFFSET: model.longest_output_offset})


def _add_fields(path: Path, fields: dict[str, int | None]) -> None:
    fields = {name: value for name, value in fields.items() if value is not None}
    _write_json(path, {**read_json(path), **fields})


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_page(
    folder: Path,
    runtime: Path,
    title: str,
    languages: LanguagePair = NO_LANGUAGES,
    pairs: Sequence[LanguagePair] = (),
) -> None:
    """Add the page to a folder into which [`write_model`] has written a model.

    Args:
        runtime: a `node_modules` folder, as returned by `web_runtime.find_runtime`.
        title: the title of the page.
        languages: the codes of the source and target languages, if known. Codes that are not in the form that browsers
            expect are left out.
        pairs: of a model for several target languages, what it translates.
    """
    copy_runtime(runtime, folder)
    source, target = (code if code and LANGUAGE.fullmatch(code) else "" for code in languages)
    choices = json.dumps(pairs) if pairs else ""
    files = page_files("browser", title=title, source_language=source, target_language=target, pairs=choices)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    model = folder / MODEL_FOLDER
    graphs = [graph_file(model, name, stored_quantization(model)) for name in (ENCODER, DECODER)]
    graphs = [path.relative_to(folder).as_posix() for path in graphs]
    loaded = [*(f"{MODEL_FOLDER}/{name}" for name in MODEL_FILES), *graphs, f"{RUNTIME_FOLDER}/onnxruntime.wasm"]
    about = {
        "blank": f"^{BLANK}$",
        "graphs": graphs,
        "files": {name: (folder / name).stat().st_size for name in loaded},
    }
    _write_json(folder / PAGE_FILE, about)
    _write_json(folder / MANIFEST, _manifest(title))
    _write_service_worker(folder)


def _manifest(title: str) -> dict[str, object]:
    """The web app manifest, which lets browsers offer to install the page."""
    return {
        "name": title,
        "short_name": title[:12],
        "start_url": ".",
        "scope": ".",
        "display": "standalone",
        "background_color": COLOR,
        "theme_color": COLOR,
        "icons": [{"src": "icon.svg", "sizes": "any", "type": "image/svg+xml"}],
    }


def _write_service_worker(folder: Path) -> None:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in KEPT_SUFFIXES)
    digests = {path.relative_to(folder).as_posix(): _digest(path.read_bytes()) for path in paths}
    digest = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
    content = render(SERVICE_WORKER, digest=digest, files=json.dumps(digests, indent=2))
    (folder / SERVICE_WORKER).write_text(content, encoding="utf-8")


def _digest(content: bytes) -> str:
    """The SHA-256 digest of a file in the form that browsers use to check its integrity."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"
