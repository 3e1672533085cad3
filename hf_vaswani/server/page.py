"""The page for people who translate, and its files."""

import hashlib

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..web.files import INDEX, page_files

TITLE = "Translate"
# Whatever this machine thinks that they are.
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def make_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for name, content in page_files("server", title=TITLE).items():
        _add(router, "/" if name == INDEX else f"/{name}", content, TYPES[name[name.rindex(".") :]])
    return router


def _add(router: APIRouter, path: str, content: bytes, media_type: str) -> None:
    # Asked for each time, so that nobody sees an old page after an upgrade.
    headers = {"etag": f'"{hashlib.sha256(content).hexdigest()}"', "cache-control": "no-cache"}

    @router.get(path)
    async def file(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media_type, headers=headers)
