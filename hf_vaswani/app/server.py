"""Serves the page: on this machine alone unless asked otherwise, and with nothing loaded from or sent to elsewhere."""

import errno
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..engines.extras import import_extra
from ..errors import InputError
from .limits import LARGEST_FILE
from .models import ModelShelf, chosen_models

HOST, FIRST_PORT = "127.0.0.1", 7860
# gradio asks its makers for its newest version, and tells them of errors and starts, unless this says no.
PRIVACY = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1", "GRADIO_MCP_SERVER": "False"}
FONTS = {
    "font": ["system-ui", "Noto Sans", "sans-serif"],
    "font_mono": ["ui-monospace", "monospace"],
}


def launch(
    models: str | Sequence[str] = (),
    host: str | None = None,
    port: int | None = None,
    trust_remote_code: bool = False,
    blocks: bool = True,
):
    """Serve a page to try models on.

    Args:
        models: folders or Hub ids; default: `outputs/quickstart`.
        host: address to listen on; default: `GRADIO_SERVER_NAME`, which a Space sets, or this machine alone.
        port: default: `GRADIO_SERVER_PORT`, or the first free one from 7860 on.
        trust_remote_code: run code that comes with models of types that transformers and this package do not know.
        blocks: return only when the server is stopped.

    Returns:
        The app of gradio, and the page's address.

    Raises:
        InputError: a model cannot be tried, the port is not free, or gradio is not installed.
    """
    names = [models] if isinstance(models, str) else list(models)
    names = check(names, host, port, trust_remote_code)
    os.environ.update(PRIVACY)
    gradio = import_extra("gradio", "app")
    from .page import make_page

    here = Path(__file__).parent
    with tempfile.TemporaryDirectory(prefix="hf-vaswani-app-") as folder:
        # Where gradio puts what is uploaded, and what can be downloaded.
        before, os.environ["GRADIO_TEMP_DIR"] = os.environ.get("GRADIO_TEMP_DIR"), folder
        page = make_page(ModelShelf(names, trust_remote_code), Path(folder))
        try:
            app, address, _ = page.launch(
                server_name=host or os.environ.get("GRADIO_SERVER_NAME", HOST),
                server_port=port,
                prevent_thread_lock=True,
                share=False,
                quiet=True,
                show_error=True,
                ssr_mode=False,
                run_history=False,
                enable_monitoring=False,
                allowed_paths=[],
                max_file_size=LARGEST_FILE + 1024,
                footer_links=[],
                theme=gradio.themes.Default(**FONTS),
                css=(here / "page.css").read_text(encoding="utf-8"),
                head=f"<script>{(here / 'page.js').read_text(encoding='utf-8')}</script>",
            )
            if blocks:
                print(f"Open {address} in a browser. Ctrl+C stops the page.", flush=True)
                page.block_thread()
        finally:
            if blocks:
                page.close()
            if before is None:
                os.environ.pop("GRADIO_TEMP_DIR", None)
            else:
                os.environ["GRADIO_TEMP_DIR"] = before
    return app, address


def check(names: Sequence[str], host: str | None, port: int | None, trust_remote_code: bool = False) -> list[str]:
    """The models, after all checks that load none.

    Raises:
        InputError: lists all that stands against the page.
    """
    errors: list[str] = []
    chosen: list[str] = []
    try:
        import_extra("gradio", "app")
    except InputError as error:
        errors.append(str(error))
    if error := address_error(host or HOST, port):
        errors.append(error)
    try:
        chosen = chosen_models(names, trust_remote_code)
    except InputError as error:
        errors += str(error).splitlines()
    if errors:
        raise InputError.of(errors)
    return chosen


def address_error(host: str, port: int | None) -> str | None:
    """Why nothing can listen there; `None` where it can."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except (OSError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            return f"--port {port} is in use by another program. Choose another one, or stop that program."
        if getattr(error, "errno", None) == errno.EACCES:
            return f"--port {port} is for the system alone. Choose one from 1024 on."
        return f"--host {host!r} is no address of this machine. Name one, such as {HOST}, or 0.0.0.0 for all."
    return None
