"""Serves the page: to this machine alone by default, without loading from or sending to other servers."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from ..errors import InputError, reason
from ..runtime.imports import import_extra, quiet
from ..runtime.signals import StopSignals
from .limits import LARGEST_FILE
from .models import ModelCache, chosen_models

HOST, FIRST_PORT = "127.0.0.1", 7860
# Without these, gradio asks its makers for its latest version, and reports errors and launches to them.
PRIVACY = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1", "GRADIO_MCP_SERVER": "False"}
# A file that is too large should still reach the page, which explains the limit in words.
LARGEST_UPLOAD = 4 * LARGEST_FILE
# Dark enough for white text.
COLORS = {
    "button_primary_background_fill": "#1d4ed8",
    "button_primary_background_fill_dark": "#1d4ed8",
    "button_primary_background_fill_hover": "#1e40af",
    "button_primary_background_fill_hover_dark": "#1e40af",
}
FONTS = {"font": ["system-ui", "Noto Sans", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}


def launch(
    models: str | Sequence[str] = (),
    host: str | None = None,
    port: int | None = None,
    trust_remote_code: bool = False,
    engine: str = "auto",
) -> None:
    """Serve a page to try models on, until Ctrl+C or SIGTERM.

    Args:
        models: folders or Hub ids; default: `outputs/quickstart`.
        host: address to listen on; default: `GRADIO_SERVER_NAME`, which a Space sets, or this machine alone.
        port: port to listen on; default: `GRADIO_SERVER_PORT`, or the first free one from 7860 on.
        trust_remote_code: run code that comes with models of types that transformers and this package do not know.
        engine: what computes translations: `"auto"`, `"torch"`, `"ctranslate2"` or `"onnx"`.

    Raises:
        ValueError: the engine is unknown or not installed.
        InputError: a model cannot be tried, the port is not free, or gradio is not installed.
    """
    # SIGTERM ends the process as Ctrl+C does, so that the uploads are removed.
    with StopSignals(at_once=True), served(models, host, port, trust_remote_code, engine) as address:
        print(f"Open {address} in a browser. Ctrl+C stops the server.", flush=True)
        with suppress(KeyboardInterrupt):
            Event().wait()


@contextmanager
def served(
    models: str | Sequence[str] = (),
    host: str | None = None,
    port: int | None = None,
    trust_remote_code: bool = False,
    engine: str = "auto",
) -> Iterator[str]:
    """Serve the page while the block runs, and yield its address. Takes and raises what [`launch`] does."""
    gradio = import_extra("gradio", "app")
    names = chosen_models([models] if isinstance(models, str) else models, trust_remote_code)
    host = host or os.environ.get("GRADIO_SERVER_NAME", HOST)
    # gradio stores uploads here, as well as files to download.
    with tempfile.TemporaryDirectory(prefix="hf-vaswani-app-") as folder, _environment(GRADIO_TEMP_DIR=folder):
        from .page import make_page

        page, here = make_page(ModelCache(names, trust_remote_code, engine), Path(folder)), Path(__file__).parent
        try:
            _, address, _ = page.launch(
                server_name=host,
                server_port=port,
                prevent_thread_lock=True,
                share=False,
                quiet=True,
                show_error=True,
                ssr_mode=False,
                run_history=False,
                enable_monitoring=False,
                allowed_paths=[],
                max_file_size=LARGEST_UPLOAD,
                footer_links=[],
                theme=gradio.themes.Default(primary_hue="blue", **FONTS).set(**COLORS),
                css=(here / "page.css").read_text(encoding="utf-8"),
                head=f"<script>{(here / 'page.js').read_text(encoding='utf-8')}</script>",
            )
        except OSError as error:
            place = f"host {host}, port {port or FIRST_PORT}"
            raise InputError(f"The page cannot be served on {place}: {reason(error)}") from None
        try:
            with quiet("hf_vaswani.translator"):  # its advice is not for visitors of the page
                yield address
        finally:
            page.close(verbose=False)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables while the block runs; those that keep gradio from reporting to its makers stay set."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(PRIVACY | variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
