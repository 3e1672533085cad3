"""The application that clients reach: all routes, the errors in the form of each API, and what operators look at."""

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from fastapi_offline import FastAPIOffline
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from . import deepl, deepl_glossaries, libretranslate, page
from .accounts import Accounts, APIError, Limits, quoted
from .catalog import Catalog
from .glossaries import Glossaries
from .messages import TextError
from .requests import UPLOAD, sent_key
from .service import Service

logger = logging.getLogger("hf_vaswani.server")

DESCRIPTION = "Translates with the APIs of LibreTranslate and DeepL."
# Pages of other sites may translate, and nothing else.
TRANSLATING = (
    "/translate", "/translate_file", "/detect", "/languages", "/frontend/settings", "/v2/translate", "/v2/languages",
    "/v2/document",
)  # fmt: skip
TRANSLATING_FOLDERS = ("/download_file/", "/v2/document/")
FOR_OTHER_SITES = {
    "access-control-allow-origin": "*",
    "access-control-allow-headers": "Authorization, Content-Type",
    "access-control-allow-methods": "GET, POST",
    "access-control-max-age": str(60 * 60 * 24 * 20),  # LibreTranslate's
}
READY_SECONDS = 5
# Requests under way, and bytes of all their bodies, at most.
MOST_REQUESTS, MOST_BODY_BYTES = 1000, 256 * 1024 * 1024
FOR_OPERATORS = ("/health", "/ready", "/metrics")
# A body must arrive at this rate, in bytes a second, after a while.
LEAST_RATE, PATIENCE_SECONDS = 10_000, 20
# Of a request with few characters: its other fields, and what surrounds them.
OTHER_BYTES = 64 * 1024
# A character takes up to 12 bytes in JSON and in forms.
CHARACTER_BYTES = 12


def make_app(
    catalog: Catalog, handles: Mapping[str, Any], accounts: Accounts, limits: Limits, glossaries: Glossaries
) -> FastAPI:
    """The application; its `state.service` is what the routes share."""
    app = FastAPIOffline(title="hf_vaswani", description=DESCRIPTION, redoc_url=None)
    service = app.state.service = Service(catalog, handles, accounts, limits, glossaries)
    app.include_router(page.make_router())
    app.include_router(libretranslate.make_router(service))
    app.include_router(deepl_glossaries.make_router(service))
    app.include_router(deepl.make_router(service))  # last, as it refuses other addresses of DeepL

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

    @app.exception_handler(APIError)
    async def api_error(request: Request, error: APIError) -> JSONResponse:
        return _error(request, error.status, str(error))

    @app.exception_handler(HTTPException)
    async def wrong_address(request: Request, error: HTTPException) -> JSONResponse:
        answer = _error(request, error.status_code, f"{error.detail}; /docs describes all calls")
        answer.headers.update(error.headers or {})
        return answer

    app.add_middleware(RequestMiddleware, service=service)
    return app


def _error(request: Request, status: int, message: str) -> JSONResponse:
    """An error in the form of the API that was called."""
    is_deepl = request.scope["path"].startswith(("/v2/", "/v3/"))
    # DeepL has a status of its own for quotas.
    status = 403 if status == 456 and not is_deepl else status
    return JSONResponse({"message" if is_deepl else "error": message}, status)


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class RequestMiddleware:
    """Middleware around all requests: limits their size, logs and counts them, and answers what fails."""

    def __init__(self, app: Callable, service: Service):
        self.app, self.service = app, service

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        service, started = self.service, time.monotonic()
        request, status, kind = Request(scope), 500, ""
        request_id = quoted(request.headers.get("x-request-id") or uuid4().hex)
        extra = {"x-request-id": request_id} | (FOR_OTHER_SITES if _translates(request) else {})
        # HEAD is GET without the body, which the server leaves out.
        scope = {**scope, "method": "GET"} if request.method == "HEAD" else scope
        body = _Body(service, request, receive, started)

        has_started = False

        async def send_noted(message: dict[str, Any]) -> None:
            nonlocal status, has_started
            if message["type"] == "http.response.start":
                status, has_started = message["status"], True
                message["headers"] += [
                    (name.encode(), value.encode("latin-1", "replace")) for name, value in extra.items()
                ]
            await send(message)

        is_counted, trace = request.scope["path"] not in FOR_OPERATORS, {}
        try:
            if request.method == "OPTIONS":
                await Response(status_code=204)(scope, receive, send_noted)
                return
            self._check(request, body.most)
            content = await body.read()
            if is_counted and service.under_way >= MOST_REQUESTS:
                raise APIError(503, "Too many requests are under way; try again later")
            service.under_way += is_counted
            try:
                await _answer(self.app, scope, content, receive, send_noted)
            finally:
                service.under_way -= is_counted
        except ClientGone:
            kind, status = "gone", 499
        except asyncio.CancelledError:  # by Ray's proxy
            kind, status = "gone", 499
            raise
        except Exception as error:
            if has_started:  # the client is cut off in the middle of its answer
                kind, status = "gone", 499
                return
            kind = type(error).__name__
            answer = _failed(request, error)
            if answer.status_code == 500:
                trace = {"error": traceback.format_exc()}
            await answer(scope, receive, send_noted)
        finally:
            body.forget()
            seconds = time.monotonic() - started
            route = getattr(scope.get("route"), "path", "other")
            service.metrics.requests.labels(route, str(status)).inc()
            service.metrics.seconds.labels(route).observe(seconds)
            if status >= 400:
                service.metrics.errors.labels(kind or str(status)).inc()
            # Not the address: it may hold the id of a document, or a key.
            entry = {"id": request_id, "method": request.method, "path": route, "status": status}
            entry |= {"seconds": round(seconds, 4), "bytes": body.received, **trace}
            logger.log(logging.ERROR if trace else logging.INFO, json.dumps(entry))

    def _check(self, request: Request, most: int) -> None:
        """Refuse what needs no body to be refused.

        Raises:
            APIError: the request is not served.
        """
        service = self.service
        # Who has sent a document still asks for its translation.
        if service.is_draining and request.method == "POST" and not request.scope["path"].startswith("/v2/document/"):
            raise APIError(503, "The server is about to stop; try again")
        if request.method not in ("GET", "HEAD") and not _translates(request) and _is_of_other_site(request):
            raise APIError(403, "Pages of other sites may translate here, and nothing else")
        length = request.headers.get("content-length", "0")
        if length != "0" or "transfer-encoding" in request.headers:
            if (key := sent_key(request)) is not None:
                service.accounts.check_key(key)
            if length.isdecimal() and int(length[:20]) > most:
                raise APIError(413, f"Invalid request: the body has more than {most:,} bytes")


class _Body:
    """The body of a request, as much as may be read.

    Attributes:
        most: bytes that it may have.
        received: bytes so far.
    """

    def __init__(self, service: Service, request: Request, receive: Callable, started: float):
        limits, self.service, self.receive, self.started = service.limits, service, receive, started
        self.received, self.most = 0, limits.body + OTHER_BYTES
        is_upload = request.headers.get("content-type", "").lower().startswith(UPLOAD)
        is_glossary = "glossaries" in request.scope["path"]
        # A key may be in the body, too, but not in a large one.
        has_key = not service.accounts.needs_key
        with suppress(APIError):  # which reading the address raises again
            has_key |= sent_key(request) is not None
        if not is_upload and not (is_glossary and has_key):
            self.most = min(self.most, CHARACTER_BYTES * (limits.characters + limits.texts) + OTHER_BYTES)

    async def read(self) -> bytes:
        """The whole body, which must arrive within the time of a request.

        Raises:
            APIError: it is too large or too slow.
            ClientGone: it does not come.
        """
        body, more = [], True
        while more:
            seconds = min(self.service.limits.seconds, PATIENCE_SECONDS + self.received / LEAST_RATE)
            try:
                message = await asyncio.wait_for(self.receive(), self.started + seconds - time.monotonic())
            except asyncio.TimeoutError:
                raise APIError(408, f"The request did not arrive within {seconds:.3g} seconds") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            body.append(message.get("body", b""))
            more = message.get("more_body", False)
            self.received += len(body[-1])
            self.service.body_bytes += len(body[-1])
            if self.received > self.most:
                raise APIError(413, f"Invalid request: the body has more than {self.most:,} bytes")
            if self.service.body_bytes > MOST_BODY_BYTES and self.received > OTHER_BYTES:
                raise APIError(503, "Too many large requests are under way; try again later")
        return b"".join(body)

    def forget(self) -> None:
        self.service.body_bytes -= self.received


def _translates(request: Request) -> bool:
    path = request.scope["path"]
    return path.rstrip("/") in TRANSLATING or path.startswith(TRANSLATING_FOLDERS)


def _is_of_other_site(request: Request) -> bool:
    """Whether a browser sends a request for a page that is not the server's own."""
    if (site := request.headers.get("sec-fetch-site")) is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    own = [request.headers.get(name) for name in ("host", "x-forwarded-host")]
    return origin is not None and origin.partition("://")[2] not in own


async def _answer(app: Callable, scope, body: bytes, receive, send) -> None:
    """Pass a request on, and give up as soon as the client is gone.

    Raises:
        ClientGone: it is.
    """
    messages = [{"type": "http.request", "body": body}]
    # Nothing follows the body but the end of the connection.
    gone = asyncio.ensure_future(receive())
    is_sent = False

    async def given() -> dict[str, Any]:
        return messages.pop() if messages else await asyncio.shield(gone)

    async def send_and_note(message: dict[str, object]) -> None:
        nonlocal is_sent
        await send(message)
        is_sent = message["type"] == "http.response.body" and not message.get("more_body")

    answer = asyncio.ensure_future(app(scope, given, send_and_note))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() and not is_sent:
            raise ClientGone
        await answer
    finally:
        answer.cancel()
        gone.cancel()


def _failed(request: Request, error: Exception) -> JSONResponse:
    """The answer if a request fails for a reason that no route has foreseen."""
    if isinstance(error, APIError):
        return _error(request, error.status, str(error))
    if isinstance(error, UnicodeDecodeError):
        return _error(request, 400, "Invalid request: its address is not in UTF-8")
    if isinstance(error, UnicodeEncodeError):
        return _error(request, 400, "Invalid request: it holds half of a surrogate pair, which is not a character")
    if isinstance(error, TextError):
        return _error(request, 400, f"A text cannot be translated: {quoted(error)}")
    # Ray's: too many requests wait already, or what translates has just died.
    if type(error).__name__ == "BackPressureError":
        return _error(request, 429, "Too many requests are waiting; try again later")
    if type(error).__module__.startswith("ray."):
        return _error(request, 503, "The model is being started; try again")
    return _error(request, 500, "The translation failed")
