"""The routes of DeepL's API that one's own models can serve; what they cannot is refused by name."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, Field, field_validator

from ..documents.markup import read_markup
from ..text.glossary import Glossary
from .accounts import APIError, quoted
from .catalog import Pair, language_name
from .documents import Document, safe_name
from .libretranslate import download
from .messages import Translation
from .requests import DEEPL_KEY, FORM, JSON, UPLOAD, Fields, body_of, checked, uploaded_file
from .service import Direction, Service

LANGUAGE_FIELDS = ("source_lang", "target_lang")
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
MOST_GLOSSARIES = 5  # for a request
# What an account without a quota may use.
NO_LIMIT = 1_000_000_000_000
# Values with which a feature that is not there makes no difference.
REFUSED = {
    "formality": ("", "default", "prefer_less", "prefer_more"),
    "style_id": ("",),
    "translation_memory_id": ("",),
    "custom_instructions": ("", []),
}


def _as_list(value: object) -> object:
    """Names: a list, or a text with commas."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        return value  # which is refused
    return [name.strip() for entry in value for name in entry.split(",") if name.strip()]


Names = Annotated[list[str], Field(fail_fast=True), BeforeValidator(_as_list)]


class GlossaryChoice(BaseModel):
    """The glossaries that a translation obeys."""

    target_lang: str
    source_lang: Annotated[str | None, BeforeValidator(lambda value: value or None)] = None
    glossary_id: str | None = None
    glossary_ids: Names = Field([], max_length=MOST_GLOSSARIES, description="the first one counts where they differ")

    @property
    def glossaries(self) -> list[str]:
        return [self.glossary_id] if self.glossary_id else self.glossary_ids


class TranslateRequest(GlossaryChoice):
    text: list[str] = Field(description="texts to translate", min_length=1, fail_fast=True)
    context: str = Field("", description="accepted, and not used")
    split_sentences: Literal["0", "1", "nonewlines"] = "1"
    preserve_formatting: bool = False
    tag_handling: Literal["xml", "html"] | None = None
    outline_detection: bool = True
    ignore_tags: Names = []
    non_splitting_tags: Names = []
    splitting_tags: Names = []
    model_type: Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None = None
    show_billed_characters: bool = False

    @field_validator("text", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("split_sentences", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return str(int(value)) if isinstance(value, bool | int) else value

    @field_validator("tag_handling", mode="before")
    @classmethod
    def _none_if_empty(cls, value: object) -> object:
        return value or None


class DocumentRequest(GlossaryChoice):
    filename: str | None = None
    output_format: str | None = None


class DocumentKey(BaseModel):
    document_key: str


def make_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["DeepL"], dependencies=[DEEPL_KEY])

    @router.post("/v2/translate", openapi_extra=body_of(JSON, FORM, model=TranslateRequest))
    async def translate(request: Request) -> Response:
        """Translate texts."""
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        refuse_features(fields)
        call = checked(TranslateRequest, fields)
        characters = service.check_size(call.text)
        directions = await service.directions(call.text, call.source_lang, call.target_lang, LANGUAGE_FIELDS)
        glossary = await _glossary(service, call, directions[0].pair, account)
        with service.accounts.charged(account, characters):
            found = await _translate(service, call, directions, glossary)
        translations = []
        for text, direction, translation in zip(call.text, directions, found):
            entry: dict[str, Any] = {
                "detected_source_language": direction.pair.source.split("-")[0].upper(),
                "text": translation.hypotheses[0],
                "billed_characters": len(text),
            }
            if call.model_type:
                entry["model_type_used"] = call.model_type.removeprefix("prefer_")
            if direction.via:
                entry["via"] = direction.via.upper()
            if translation.warnings:
                entry["warnings"] = list(translation.warnings)
            translations.append(entry)
        return JSONResponse({"translations": translations})

    @router.get("/v2/languages")
    @router.post("/v2/languages", include_in_schema=False)
    async def languages(request: Request) -> list[dict[str, object]]:
        """The source or target languages that are served."""
        fields = await service.read_fields(request)
        service.authenticate(request, fields)
        kind = fields.get("type", "source")
        if kind not in ("source", "target"):
            raise APIError(400, "Parameter 'type' is invalid. 'source' and 'target' are valid values.")
        is_target = kind == "target"
        codes = service.catalog.targets() if is_target else service.catalog.sources()
        extra = {"supports_formality": False} if is_target else {}
        return [{"language": code.upper(), "name": language_name(code), **extra} for code in codes]

    @router.get("/v2/usage")
    @router.post("/v2/usage", include_in_schema=False)
    async def usage(request: Request) -> dict[str, int]:
        """What the key has used since the server was started."""
        account = service.authenticate(request, await service.read_fields(request))
        limit = service.accounts.limit(account)
        used = service.accounts.used_characters(account)
        return {"character_count": used, "character_limit": NO_LIMIT if limit is None else limit}

    @router.post("/v2/document", openapi_extra=body_of(UPLOAD, model=DocumentRequest))
    async def upload(request: Request) -> dict[str, str]:
        """Send a document to be translated."""
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        refuse_features(fields)
        call = checked(DocumentRequest, {name: value for name, value in fields.items() if name != "file"})
        file = uploaded_file(fields, service.limits.body)
        name = safe_name(call.filename or file.name)
        suffix = name.rpartition(".")[2].lower()
        if call.output_format and call.output_format.lower() != suffix:
            given = quoted(call.output_format)
            raise APIError(400, f"output_format {given} not supported: documents keep their format")
        texts = await service.reader.read(name, file.content)
        characters = service.check_size(texts.texts)
        joined = ["\n".join(texts.texts)]
        [direction] = await service.directions(joined, call.source_lang, call.target_lang, LANGUAGE_FIELDS)
        if call.source_lang and direction.route is None:
            raise APIError(400, "Source and target language are equal.")
        glossary = await _glossary(service, call, direction.pair, account)
        document = Document(name, len(file.content), account, characters, via=direction.via)
        service.documents.add(document)
        service.accounts.charge(account, characters)

        async def work() -> None:
            service.under_way += 1
            try:
                document.result, document.warnings = await service.translate_document(texts, direction, glossary)
            except Exception as error:
                document.error = str(error) if isinstance(error, APIError) else "The document could not be translated"
                service.accounts.refund(account, characters)
            finally:
                service.under_way -= 1

        document.task = asyncio.create_task(work())
        return {"document_id": document.id, "document_key": document.key}

    async def find(request: Request, number: str) -> Document:
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        return service.documents.find(number, checked(DocumentKey, fields).document_key, account)

    @router.post("/v2/document/{number}", openapi_extra=body_of(JSON, FORM, model=DocumentKey))
    async def status(request: Request, number: str) -> dict[str, object]:
        """How far a document is."""
        document = await find(request, number)
        answer: dict[str, Any] = {"document_id": document.id, "status": document.status}
        if document.via:
            answer["via"] = document.via.upper()
        if document.warnings:
            answer["warnings"] = document.warnings
        if document.error:
            return answer | {"error_message": document.error, "message": document.error}
        if document.result is None:
            return answer | {"seconds_remaining": 1}
        return answer | {"seconds_remaining": 0, "billed_characters": document.characters}

    @router.post("/v2/document/{number}/result", openapi_extra=body_of(JSON, FORM, model=DocumentKey))
    async def result(request: Request, number: str) -> Response:
        """Download a translated document, once."""
        document = await find(request, number)
        if document.result is None:
            raise APIError(503, "Document translation is not done")
        service.documents.drop(document)
        return download(document)

    @router.api_route("/v2/write/{rest:path}", methods=["POST"], include_in_schema=False)
    @router.api_route("/v3/{rest:path}", methods=METHODS, include_in_schema=False)
    async def absent(request: Request, rest: str) -> None:
        service.authenticate(request, await service.read_fields(request))
        raise APIError(400, f"{quoted(request.scope['path'])} is not served here; see /docs for what is")

    return router


def refuse_features(fields: Fields) -> None:
    """Refuse what these models cannot do.

    Raises:
        APIError: a field asks for it; the message names it.
    """
    for name, neutral in REFUSED.items():
        value = fields.get(name)
        if value is not None and value not in neutral:
            raise APIError(400, f"{name} is not supported by this server; leave it out")


async def _glossary(service: Service, call: GlossaryChoice, pair: Pair, account: str) -> Glossary | None:
    """The terms that a translation is to obey, if any."""
    if not call.glossaries:
        return None
    if not call.source_lang:
        raise APIError(400, "Invalid request: source_lang is required with a glossary")
    return await service.in_thread(service.glossaries.terms, call.glossaries, pair, account)


async def _translate(
    service: Service, call: TranslateRequest, directions: Sequence[Direction], glossary: Glossary | None
) -> list[Translation]:
    if call.tag_handling:
        is_html, names = call.tag_handling == "html", (call.ignore_tags, call.splitting_tags)
        markup = await service.in_thread(lambda: [read_markup(text, is_html, *names) for text in call.text])
        return await service.translate_markup(markup, directions, glossary)
    if call.split_sentences == "1":
        return await service.translate(call.text, directions, glossary=glossary)
    # Line breaks are spaces then; without splitting, a text is one sentence.
    texts = [" ".join(text.split()) for text in call.text]
    split = False if call.split_sentences == "0" else None
    return await service.translate(texts, directions, glossary=glossary, split_sentences=split)
