"""The application that clients reach: all routes, the errors in the form of each API, and what operators look at."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from . import deepl, deepl_glossaries, libretranslate
from .accounts import Accounts, Limits, Refused
from .catalog import Catalog
from .glossaries import Glossaries
from .replica import TextError
from .service import Service

logger = logging.getLogger("hf_vaswani.server")

DESCRIPTION = "Translates with the APIs of LibreTranslate and DeepL."
ALLOWED = {
    "access-control-allow-origin": "*",
    "access-control-allow-headers": "Authorization, Content-Type",
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
}
READY_SECONDS = 5
PAGE = Path(__file__).with_name("page.html")  # for people


def make_app(
    catalog: Catalog, handles: Mapping[str, Any], accounts: Accounts, limits: Limits, glossaries: Glossaries
) -> FastAPI:
    """The application; its `state.service` is what the routes share."""
    app = FastAPI(title="hf_vaswani", description=DESCRIPTION, docs_url="/docs", redoc_url=None)
    service = app.state.service = Service(catalog, handles, accounts, limits, glossaries)
    app.include_router(libretranslate.make_router(service))
    app.include_router(deepl_glossaries.make_router(service))
    app.include_router(deepl.make_router(service))  # last, as it refuses other addresses of DeepL

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE)

    @app.get("/health", tags=["operation"])
    async def health() -> dict[str, str]:
        """Whether the server runs."""
        return {"status": "ok"}

    @app.get("/ready", tags=["operation"])
    async def ready() -> JSONResponse:
        """Whether all models translate, and the server is not about to stop."""
        if service.is_draining:
            return JSONResponse({"status": "draining"}, 503)
        try:
            checks = (handle.check.remote() for handle in service.handles.values())
            await asyncio.wait_for(asyncio.gather(*checks), READY_SECONDS)
        except Exception:
            return JSONResponse({"status": "not ready"}, 503)
        return JSONResponse({"status": "ok"})

    @app.get("/metrics", tags=["operation"])
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return _error(request, error.status, str(error))

    @app.exception_handler(HTTPException)
    async def wrong_address(request: Request, error: HTTPException) -> JSONResponse:
        return _error(request, error.status_code, str(error.detail))

    app.add_middleware(Watched, service=service)
    return app


def _error(request: Request, status: int, message: str) -> JSONResponse:
    """An error in the form of the API that was called."""
    is_deepl = request.url.path.startswith(("/v2/", "/v3/"))
    # DeepL has a status of its own for quotas.
    status = 403 if status == 456 and not is_deepl else status
    return JSONResponse({"message" if is_deepl else "error": message}, status, headers=ALLOWED)


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Watched:
    """Middleware around all requests: limits their size, logs and counts them, and answers what fails."""

    def __init__(self, app: Callable, service: Service):
        self.app, self.service = app, service

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        service, started = self.service, time.monotonic()
        request, status = Request(scope), 500
        number = request.headers.get("x-request-id") or uuid4().hex
        most, got = service.limits.body + 64 * 1024, 0

        async def read() -> bytes:
            """The whole body, which must arrive within the time of a request."""
            nonlocal got
            body, more = [], True
            while more:
                try:
                    message = await asyncio.wait_for(receive(), started + service.limits.seconds - time.monotonic())
                except asyncio.TimeoutError:
                    seconds = f"{service.limits.seconds:g} seconds"
                    raise Refused(408, f"The request did not arrive within {seconds}") from None
                if message["type"] == "http.disconnect":
                    raise ClientGone
                body.append(message.get("body", b""))
                more, got = message.get("more_body", False), got + len(body[-1])
                if got > most:
                    raise Refused(413, f"Invalid request: the body has more than {service.limits.body:,} bytes")
            return b"".join(body)

        async def noted(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name for name, _ in message["headers"]}
                extra = {**ALLOWED, "x-request-id": number}
                message["headers"] += [
                    (name.encode(), value.encode("latin-1", "replace"))
                    for name, value in extra.items() if name.encode() not in names
                ]  # fmt: skip
            await send(message)

        service.under_way += 1
        kind = ""
        try:
            if request.method == "OPTIONS":
                await Response(status_code=204, headers=ALLOWED)(scope, receive, noted)
            elif service.is_draining and request.method == "POST":
                await _error(request, 503, "The server is about to stop; try again")(scope, receive, noted)
            elif (length := request.headers.get("content-length", "0")).isdigit() and int(length) > most:
                message = f"Invalid request: the body has more than {service.limits.body:,} bytes"
                await _error(request, 413, message)(scope, receive, noted)
            else:
                await _answer(self.app, scope, await read(), receive, noted)
        except ClientGone:
            kind, status = "gone", 499
        except asyncio.CancelledError:  # by Ray's proxy
            kind, status = "gone", 499
            raise
        except Exception as error:
            kind = type(error).__name__
            answer = _failed(request, error)
            if answer.status_code == 500:
                logger.exception("Request %s failed", number)
            await answer(scope, receive, noted)
        finally:
            service.under_way -= 1
            seconds = time.monotonic() - started
            route = getattr(scope.get("route"), "path", "other")
            service.metrics.requests.labels(route, str(status)).inc()
            service.metrics.seconds.labels(route).observe(seconds)
            if status >= 400:
                service.metrics.errors.labels(kind or str(status)).inc()
            entry = {"id": number, "method": request.method, "path": request.url.path, "status": status}
            logger.info(json.dumps(entry | {"seconds": round(seconds, 4), "bytes": got}))


async def _answer(app: Callable, scope, body: bytes, receive, send) -> None:
    """Pass a request on, and give up as soon as the client is gone.

    Raises:
        ClientGone: it is.
    """
    messages = [{"type": "http.request", "body": body}]
    # Nothing follows the body but the end of the connection.
    gone = asyncio.ensure_future(receive())

    async def given() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.shield(gone)

    answer = asyncio.ensure_future(app(scope, given, send))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientGone
        answer.result()
    finally:
        answer.cancel()
        gone.cancel()


def _failed(request: Request, error: Exception) -> JSONResponse:
    """The answer if a request fails for a reason that no route has foreseen."""
    if isinstance(error, Refused):
        return _error(request, error.status, str(error))
    if isinstance(error, UnicodeEncodeError):
        return _error(request, 400, "Invalid request: it holds half of a surrogate pair, which is not a character")
    if isinstance(error, TextError):
        return _error(request, 400, f"A text cannot be translated: {error}")
    # Ray's: too many requests wait already, or what translates has just died.
    if type(error).__name__ == "BackPressureError":
        return _error(request, 429, "Too many requests are waiting; try again later")
    if type(error).__module__.startswith("ray."):
        return _error(request, 503, "The model is being started; try again")
    return _error(request, 500, "The translation failed")
