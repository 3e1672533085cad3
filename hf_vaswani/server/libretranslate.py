"""The routes of LibreTranslate's API, as its clients call them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, Field

from ..documents.formats import SUFFIXES
from ..documents.markup import read_html
from ..text.glossary import Glossary
from ..text.words import word_spans
from .accounts import APIError
from .catalog import language_name
from .documents import Document, safe_name
from .glossaries import typed_glossary
from .messages import Translation
from .requests import FORM, JSON, LIBRETRANSLATE_KEY, UPLOAD, Model, body_of, checked, uploaded_file
from .service import Direction, Service

FRONTEND_TIMEOUT = 500  # milliseconds
MOST_TERMS = 100_000  # characters of the terms that a request has itself


def _as_list(value: object) -> object:
    if not isinstance(value, str | list):
        raise ValueError("it must be a text or a list of texts")
    return [value] if isinstance(value, str) else value


# A text, or several.
Texts = Annotated[list[str], Field(fail_fast=True), BeforeValidator(_as_list)]


class FileRequest(BaseModel):
    source: str = Field(description="code of the source language, or auto")
    target: str = Field(description="code of the target language")
    glossary: str = Field("", max_length=MOST_TERMS, description="terms, one a line, a tab before its translation")
    glossary_id: str = Field("", description="a glossary that was created with DeepL's calls")
    api_key: str = ""


class TranslateRequest(FileRequest):
    q: Texts = Field(description="text to translate, or several")
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, description="further translations of each text")


class AlignRequest(BaseModel):
    q: Texts = Field(description="text, or several")
    translation: Texts = Field(description="the translation of each")
    source: str
    target: str
    api_key: str = ""


class DetectRequest(BaseModel):
    q: Texts
    api_key: str = ""


def make_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"], dependencies=[LIBRETRANSLATE_KEY])

    @router.post("/translate", openapi_extra=body_of(JSON, FORM, model=TranslateRequest))
    async def translate(request: Request) -> Response:
        """Translate a text, or several."""
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        call = _call(TranslateRequest, fields)
        if call.alternatives > service.limits.alternatives:
            raise APIError(400, f"Invalid request: alternatives parameter must be <= {service.limits.alternatives}")
        characters = service.check_size(call.q)
        directions = await service.directions(call.q, _source(call.source), call.target)
        glossary = await _glossary(service, call, directions, account)
        with service.accounts.charged(account, characters):
            if call.format == "html":
                markup = await service.in_thread(lambda: [read_html(text) for text in call.q])
                results = await service.translate_markup(markup, directions, glossary)
            else:
                results = await service.translate(call.q, directions, 1 + call.alternatives, glossary)
        answer: dict[str, Any] = {"translatedText": [result.hypotheses[0] for result in results]}
        if detected := [direction.detected for direction in directions if direction.detected]:
            answer["detectedLanguage"] = [{"confidence": one.confidence, "language": one.language} for one in detected]
        if call.alternatives:
            answer["alternatives"] = [_others(result.hypotheses) for result in results]
        if any(direction.via for direction in directions):
            answer["via"] = [direction.via for direction in directions]
        if warnings := _warnings(results):
            answer["warnings"] = warnings
        if not isinstance(fields["q"], list):
            answer = {name: values[0] for name, values in answer.items()}
        return JSONResponse(answer)  # FastAPI's own way looks at each of many texts

    @router.post("/align", openapi_extra=body_of(JSON, FORM, model=AlignRequest))
    async def align(request: Request) -> Response:
        """Where the words of texts and of their translations are, and which source and target word correspond."""
        fields = await service.read_fields(request)
        service.authenticate(request, fields)
        call = _call(AlignRequest, fields)
        if len(call.q) != len(call.translation):
            raise APIError(400, "Invalid request: each text needs its translation")
        service.check_size([*call.q, *call.translation])
        found = await service.align(call.q, call.translation, service.route(call.source, call.target))
        alignments = [
            {"source": word_spans(text), "target": word_spans(translation), "links": sorted(links or ())}
            for text, translation, links in zip(call.q, call.translation, found)
        ]
        return JSONResponse({"alignments": alignments})

    @router.post("/detect", openapi_extra=body_of(JSON, FORM, model=DetectRequest))
    async def detect(request: Request) -> list[dict[str, object]]:
        """Guess the language of a text."""
        fields = await service.read_fields(request)
        service.authenticate(request, fields)
        call = _call(DetectRequest, fields)
        service.check_size(call.q)
        ranked = await service.in_thread(service.detector.rank, "\n".join(call.q))
        return [{"confidence": one.confidence, "language": one.language} for one in ranked]

    @router.get("/languages")
    async def languages() -> list[dict[str, object]]:
        """The languages that are served, and what each is translated into."""
        catalog = service.catalog
        codes = sorted({*catalog.sources(), *catalog.targets()})
        return [{"code": code, "name": language_name(code), "targets": catalog.targets(code)} for code in codes]

    @router.post("/translate_file", openapi_extra=body_of(UPLOAD, model=FileRequest))
    async def translate_file(request: Request) -> dict[str, object]:
        """Translate a file; the answer says where to download the translation."""
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        call = _call(FileRequest, fields)
        file = uploaded_file(fields, service.limits.body)
        texts = await service.reader.read(file.name, file.content)
        characters = service.check_size(texts.texts)
        [direction] = await service.directions(["\n".join(texts.texts)], _source(call.source), call.target)
        glossary = await _glossary(service, call, [direction], account)
        document = Document(safe_name(file.name), len(file.content), account, characters)
        with service.accounts.charged(account, characters), service.files.kept(document):
            document.result, warnings = await service.translate_document(texts, direction, glossary)
        path = f"download_file/{document.id}.{quote(document.name)}"
        answer: dict[str, Any] = {"translatedFileUrl": f"{request.base_url}{path}"}
        more = {"via": direction.via, "warnings": warnings}
        return answer | {name: value for name, value in more.items() if value}

    @router.get("/download_file/{name}")
    async def download_file(name: str) -> Response:
        """Download a translated file."""
        document = service.files.by_id.get(name.partition(".")[0])
        if document is None or document.result is None or name != f"{document.id}.{document.name}":
            raise APIError(404, "File not found")
        return download(document)

    @router.get("/frontend/settings")
    async def settings() -> dict[str, object]:
        """What LibreTranslate's page, and pages like it, need to know."""
        (source, target), *_ = sorted(service.catalog.routes)
        return {
            "alternativesLimit": service.limits.alternatives,
            "apiKeys": service.accounts.needs_key,
            "charLimit": service.limits.characters,
            "filesTranslation": True,
            "frontendTimeout": FRONTEND_TIMEOUT,
            "keyRequired": service.accounts.needs_key,
            "language": {
                side: {"code": code, "name": language_name(code)}
                for side, code in (("source", source), ("target", target))
            },
            "suggestions": False,
            "supportedFilesFormat": list(SUFFIXES),
        }

    return router


def _call(kind: type[Model], fields: dict[str, object]) -> Model:
    """The fields of a request; one that is empty is missing, as forms send them."""
    return checked(kind, {name: value for name, value in fields.items() if value != ""})


def _source(code: str) -> str | None:
    return None if code.lower() == "auto" else code


async def _glossary(
    service: Service, call: FileRequest, directions: Sequence[Direction], account: str
) -> Glossary | None:
    """The terms that a translation is to obey, if any."""
    if call.glossary:
        return await service.in_thread(typed_glossary, call.glossary)
    if not call.glossary_id or not directions:
        return None
    if _source(call.source) is None:
        raise APIError(400, "Invalid request: with glossary_id, source must be a language")
    return await service.in_thread(service.glossaries.terms, [call.glossary_id], directions[0].pair, account)


def _warnings(results: Sequence[Translation]) -> list[list[str]]:
    """The warnings of each text; none at all if no text has any."""
    warnings = [list(result.warnings) for result in results]
    return warnings if any(warnings) else []


def _others(hypotheses: Sequence[str]) -> list[str]:
    """All but the best one, without repetitions."""
    return [text for text in dict.fromkeys(hypotheses) if text != hypotheses[0]]


def download(document: Document) -> Response:
    """The answer that a translated document is downloaded with."""
    header = f"attachment; filename*=UTF-8''{quote(document.name)}"
    return Response(document.result, media_type="application/octet-stream", headers={"content-disposition": header})
