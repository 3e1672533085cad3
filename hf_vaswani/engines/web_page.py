"""Writes a web page that contains a model: a transformers.js folder, the page in `web/`, and the runtime.

The page translates in the browser. It works at any address on any static host, since all its links are relative, and
it works offline after the first visit: its service worker keeps all files, and checks them by their digests.

transformers.js's pipeline does not return attention weights, runs a batch until its last sentence is done, and loads
twice as much code. So `web/worker.js` runs the graphs itself, with the tokenizer and the runtime of transformers.js.
To show which words correspond, the decoder has an additional output, the alignment, at hardly any cost.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..files import read_json
from ..text.invisible import BLANK
from . import transformers_js_export
from .engine_folders import INDEX_FILE, PAGE_FILE
from .onnx.onnx_config import DECODER, ENCODER, graph_file, stored_quantization
from .web_runtime import RUNTIME_FOLDER, copy_runtime

MODEL_FOLDER = "model"
QUANTIZATION = "int8"
OFFSET = "max_length_offset"
# The widths of keys and values, which are set only if they are not d_model / heads.
WIDTHS = ("d_k", "d_v")
SOURCES = Path(__file__).with_name("web")
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


def write_page(folder: Path, runtime: Path, title: str, languages: Sequence[str] | None = None) -> None:
    """Add the page to a folder into which [`write_model`] has written a model.

    Args:
        runtime: a `node_modules` folder, as returned by `web_runtime.find_runtime`.
        title: the title of the page.
        languages: the codes of the source and target languages, if known. Codes that are not in the form that browsers
            expect are left out.
    """
    copy_runtime(runtime, folder)
    known = languages and len(languages) == 2 and all(map(LANGUAGE.fullmatch, languages))
    source, target = languages if known else ("", "")
    values = {
        "title": html.escape(title),
        "source_language": source,
        "target_language": target,
        "source_lang": f' lang="{source}"' if source else "",
        "target_lang": f' lang="{target}"' if target else "",
    }
    for path in SOURCES.iterdir():
        if path.name == INDEX_FILE:
            (folder / path.name).write_text(_filled(path, values), encoding="utf-8")
        elif path.name != SERVICE_WORKER:
            (folder / path.name).write_bytes(path.read_bytes())
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


def _filled(path: Path, values: dict[str, str]) -> str:
    """The content of a file of the page, with its placeholders replaced."""
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


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
    values = {
        "digest": hashlib.sha256(json.dumps(digests).encode()).hexdigest(),
        "files": json.dumps(digests, indent=2),
    }
    (folder / SERVICE_WORKER).write_text(_filled(SOURCES / SERVICE_WORKER, values), encoding="utf-8")


def _digest(content: bytes) -> str:
    """The SHA-256 digest of a file in the form that browsers use to check its integrity."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"
