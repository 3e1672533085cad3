"""The routes of LibreTranslate's API, as its clients call them."""

import asyncio
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from ..documents.formats import SUFFIXES
from ..documents.markup import read_html
from .accounts import Refused
from .catalog import language_name
from .documents import Document, read_uploaded, safe_name
from .requests import Model, body_of, checked, read_fields, read_upload
from .service import Service

JSON, FORM, UPLOAD = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
FRONTEND_TIMEOUT = 500  # milliseconds


class TranslateRequest(BaseModel):
    q: str | list[str] = Field(description="text to translate, or several")
    source: str = Field(description="code of the source language, or auto")
    target: str = Field(description="code of the target language")
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, description="further translations of each text")
    api_key: str = ""


class DetectRequest(BaseModel):
    q: str | list[str]
    api_key: str = ""


class FileRequest(BaseModel):
    source: str
    target: str
    api_key: str = ""


def make_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", openapi_extra=body_of(JSON, FORM, model=TranslateRequest))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate a text, or several."""
        fields = await read_fields(request)
        account = service.accounts.enter(fields.get("api_key"))
        call = _call(TranslateRequest, fields)
        if call.alternatives > service.limits.alternatives:
            raise Refused(400, f"Invalid request: alternatives parameter must be <= {service.limits.alternatives}")
        texts = call.q if isinstance(call.q, list) else [call.q]
        characters = service.check_size(texts)
        detected = service.detect(texts, call.target) if call.source == "auto" else None
        pair, route = service.route(detected.language if detected else call.source, call.target)
        service.accounts.charge(account, characters)
        if call.format == "html":
            results = [[text] for text in await service.translate_markup(map(read_html, texts), pair, route)]
        else:
            results = await service.translate(texts, pair, route, 1 + call.alternatives)
        answer: dict[str, Any] = {"translatedText": [best for best, *_ in results]}
        if detected:
            one = {"confidence": detected.confidence, "language": detected.language}
            answer["detectedLanguage"] = [one] * len(texts)
        if call.alternatives:
            answer["alternatives"] = [_others(hypotheses) for hypotheses in results]
        return answer if isinstance(call.q, list) else {name: values[0] for name, values in answer.items()}

    @router.post("/detect", openapi_extra=body_of(JSON, FORM, model=DetectRequest))
    async def detect(request: Request) -> list[dict[str, Any]]:
        """Guess the language of a text."""
        fields = await read_fields(request)
        service.accounts.enter(fields.get("api_key"))
        call = _call(DetectRequest, fields)
        texts = call.q if isinstance(call.q, list) else [call.q]
        service.check_size(texts)
        return [{"confidence": share, "language": code} for code, share in service.detector.detect(texts)]

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """The languages that are served, and what each is translated into."""
        catalog = service.catalog
        codes = sorted({*catalog.sources(), *catalog.targets()})
        return [{"code": code, "name": language_name(code), "targets": catalog.targets(code)} for code in codes]

    @router.post("/translate_file", openapi_extra=body_of(UPLOAD, model=FileRequest))
    async def translate_file(request: Request) -> dict[str, str]:
        """Translate a file; the answer says where to download the translation."""
        fields = await read_fields(request)
        account = service.accounts.enter(fields.get("api_key"))
        call = _call(FileRequest, fields)
        name, content = await read_upload(fields, service.limits.body)
        read = await asyncio.to_thread(read_uploaded, name, content)
        characters = service.check_size(read.texts)
        source = service.detect(read.texts, call.target).language if call.source == "auto" else call.source
        pair, route = service.route(source, call.target)
        service.accounts.charge(account, characters)
        document = Document(safe_name(name), len(content), account, characters)
        document.result = await service.translate_document(read, pair, route)
        service.documents.add(document)
        path = f"download_file/{document.id}.{quote(document.name)}"
        return {"translatedFileUrl": f"{request.base_url}{path}"}

    @router.get("/download_file/{name}")
    async def download_file(name: str) -> Response:
        """Download a translated file."""
        document = service.documents.by_id.get(name.partition(".")[0])
        if document is None or document.result is None or name != f"{document.id}.{document.name}":
            raise Refused(404, "File not found")
        return download(document)

    @router.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """What LibreTranslate's page, and pages like it, need to know."""
        (source, target), *_ = sorted(service.catalog.routes)
        return {
            "apiKeys": bool(service.accounts.accounts),
            "charLimit": service.limits.characters,
            "filesTranslation": True,
            "frontendTimeout": FRONTEND_TIMEOUT,
            "keyRequired": bool(service.accounts.accounts),
            "language": {
                side: {"code": code, "name": language_name(code)}
                for side, code in (("source", source), ("target", target))
            },
            "suggestions": False,
            "supportedFilesFormat": list(SUFFIXES),
        }

    return router


def _call(kind: type[Model], fields: dict[str, Any]) -> Model:
    """The fields of a request; one that is empty is missing, as forms send them."""
    return checked(kind, {name: value for name, value in fields.items() if value != ""})


def _others(hypotheses: list[str]) -> list[str]:
    """All but the best one, without repetitions."""
    return [text for text in dict.fromkeys(hypotheses) if text != hypotheses[0]]


def download(document: Document) -> Response:
    """The answer that a translated document is downloaded with."""
    header = f"attachment; filename*=UTF-8''{quote(document.name)}"
    return Response(document.result, media_type="application/octet-stream", headers={"content-disposition": header})
