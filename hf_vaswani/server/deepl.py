"""The routes of DeepL's API that one's own models can serve; what they cannot is refused by name."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, Field, field_validator

from ..documents.markup import read_markup
from ..text.glossary import Glossary
from .accounts import Refused
from .catalog import Pair, Route, language_name
from .documents import Document, read_uploaded, safe_name
from .libretranslate import FORM, JSON, UPLOAD, download
from .requests import body_of, checked, read_fields, read_upload
from .service import Service

SCHEME = "DeepL-Auth-Key"
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
MOST_GLOSSARIES = 5  # for a request
# What an account without a quota may use.
NO_LIMIT = 1_000_000_000_000
# Values with which a feature that is not there makes no difference.
REFUSED = {
    "formality": ("default", "prefer_less", "prefer_more"),
    "style_id": (),
    "translation_memory_id": (),
    "custom_instructions": ("", []),
}


def _as_list(value: Any) -> Any:
    """Names: a list, or a text with commas."""
    if isinstance(value, str):
        value = value.split(",")
    return [name.strip() for entry in value for name in str(entry).split(",") if name.strip()]


Names = Annotated[list[str], BeforeValidator(_as_list)]


class GlossaryChoice(BaseModel):
    """The glossaries that a translation obeys."""

    target_lang: str
    source_lang: str | None = None
    glossary_id: str | None = None
    glossary_ids: Names = Field([], max_length=MOST_GLOSSARIES, description="the first one counts where they differ")

    @property
    def glossaries(self) -> list[str]:
        return [self.glossary_id] if self.glossary_id else self.glossary_ids


class TranslateRequest(GlossaryChoice):
    text: list[str] = Field(description="texts to translate", min_length=1)
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
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("split_sentences", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(int(value)) if isinstance(value, bool | int) else value

    @field_validator("tag_handling", mode="before")
    @classmethod
    def _none_if_empty(cls, value: Any) -> Any:
        return value or None


class DocumentRequest(GlossaryChoice):
    filename: str | None = None
    output_format: str | None = None


class DocumentKey(BaseModel):
    document_key: str


def make_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["DeepL"])

    @router.post("/v2/translate", openapi_extra=body_of(JSON, FORM, model=TranslateRequest))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate texts."""
        fields = await read_fields(request)
        account = enter(service, request, fields)
        refuse_features(fields)
        call = checked(TranslateRequest, fields)
        characters = service.check_size(call.text)
        routes = [_route(service, text, call.source_lang, call.target_lang) for text in call.text]
        glossary = _glossary(service, call, routes[0][0], account)
        service.accounts.charge(account, characters)
        alike = {
            found: [text for text, other in zip(call.text, routes) if other == found]
            for found in dict.fromkeys(routes)
        }  # fmt: skip
        answers = await asyncio.gather(
            *(_translate(service, call, texts, found, glossary) for found, texts in alike.items())
        )
        translated = {found: iter(answer) for found, answer in zip(alike, answers)}
        translations = []
        for text, found in zip(call.text, routes):
            entry: dict[str, Any] = {"detected_source_language": found[0].source.split("-")[0].upper()}
            entry |= {"text": next(translated[found]), "billed_characters": len(text)}
            if call.model_type:
                entry["model_type_used"] = call.model_type.removeprefix("prefer_")
            translations.append(entry)
        return {"translations": translations}

    @router.get("/v2/languages")
    @router.post("/v2/languages", include_in_schema=False)
    async def languages(request: Request) -> list[dict[str, Any]]:
        """The source or target languages that are served."""
        fields = await read_fields(request)
        enter(service, request, fields)
        kind = fields.get("type", "source")
        if kind not in ("source", "target"):
            raise Refused(400, "Parameter 'type' is invalid. 'source' and 'target' are valid values.")
        is_target = kind == "target"
        codes = service.catalog.targets() if is_target else service.catalog.sources()
        extra = {"supports_formality": False} if is_target else {}
        return [{"language": code.upper(), "name": language_name(code), **extra} for code in codes]

    @router.get("/v2/usage")
    @router.post("/v2/usage", include_in_schema=False)
    async def usage(request: Request) -> dict[str, int]:
        """What the key has used since the server was started."""
        account = enter(service, request, await read_fields(request))
        limit = service.accounts.limit(account)
        used = service.accounts.used_characters(account)
        return {"character_count": used, "character_limit": NO_LIMIT if limit is None else limit}

    @router.post("/v2/document", openapi_extra=body_of(UPLOAD, model=DocumentRequest))
    async def upload(request: Request) -> dict[str, str]:
        """Send a document to be translated."""
        fields = await read_fields(request)
        account = enter(service, request, fields)
        refuse_features(fields)
        call = checked(DocumentRequest, {name: value for name, value in fields.items() if name != "file"})
        name, content = await read_upload(fields, service.limits.body)
        name = safe_name(call.filename or name)
        suffix = name.rpartition(".")[2].lower()
        if call.output_format and call.output_format.lower() != suffix:
            raise Refused(400, f"output_format {call.output_format} not supported: documents keep their format")
        read = await asyncio.to_thread(read_uploaded, name, content)
        characters = service.check_size(read.texts)
        found = _route(service, "\n".join(read.texts), call.source_lang, call.target_lang)
        if call.source_lang and found[0].source == found[0].target:
            raise Refused(400, "Source and target language are equal.")
        glossary = _glossary(service, call, found[0], account)
        service.accounts.charge(account, characters)
        document = Document(name, len(content), account, characters)
        service.documents.add(document)

        async def work() -> None:
            try:
                document.result = await service.translate_document(read, *found, glossary)
            except Exception as error:
                document.error = str(error) if isinstance(error, Refused) else "The document could not be translated"

        document.task = asyncio.create_task(work())
        return {"document_id": document.id, "document_key": document.key}

    async def find(request: Request, number: str) -> Document:
        fields = await read_fields(request)
        account = enter(service, request, fields)
        return service.documents.find(number, checked(DocumentKey, fields).document_key, account)

    @router.post("/v2/document/{number}", openapi_extra=body_of(JSON, FORM, model=DocumentKey))
    async def status(request: Request, number: str) -> dict[str, Any]:
        """How far a document is."""
        document = await find(request, number)
        answer: dict[str, Any] = {"document_id": document.id, "status": document.status}
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
            raise Refused(503, "Document translation is not done")
        del service.documents.by_id[document.id]
        return download(document)

    @router.api_route("/v2/write/{rest:path}", methods=["POST"], include_in_schema=False)
    @router.api_route("/v3/{rest:path}", methods=METHODS, include_in_schema=False)
    async def absent(request: Request, rest: str) -> None:
        enter(service, request, {})
        raise Refused(
            400, f"{request.url.path} is not served here: there are no style rules, translation memories or rewriting"
        )

    return router


def enter(service: Service, request: Request, fields: dict[str, Any]) -> str:
    """The account of a request; errors as in [`Accounts.enter`]."""
    scheme, _, key = request.headers.get("authorization", "").strip().partition(" ")
    given = key.strip() if scheme.lower() in (SCHEME.lower(), "bearer") else fields.get("auth_key")
    return service.accounts.enter(given)


def refuse_features(fields: dict[str, Any]) -> None:
    """Refuse what these models cannot do.

    Raises:
        Refused: a field asks for it; the message names it.
    """
    for name, neutral in REFUSED.items():
        value = fields.get(name)
        if value is not None and value not in neutral:
            raise Refused(400, f"{name} is not supported by this server; leave it out")


def _route(service: Service, text: str, source: str | None, target: str) -> tuple[Pair, Route]:
    """The pair and what translates it; without a source language, the text's own is guessed."""
    return service.route(source or service.detect([text], target).language, target, ("source_lang", "target_lang"))


def _glossary(service: Service, call: GlossaryChoice, pair: Pair, account: str) -> Glossary | None:
    """The terms that a translation is to obey, if any."""
    if not call.glossaries:
        return None
    if not call.source_lang:
        raise Refused(400, "Invalid request: source_lang is required with a glossary")
    return service.glossaries.terms(call.glossaries, pair, account)


async def _translate(
    service: Service, call: TranslateRequest, texts: list[str], found: tuple[Pair, Route], glossary: Glossary | None
) -> list[str]:
    if call.tag_handling:
        documents = [
            read_markup(text, call.tag_handling == "html", call.ignore_tags, call.splitting_tags) for text in texts
        ]
        return await service.translate_markup(documents, *found, glossary)
    if call.split_sentences == "nonewlines":
        texts = [" ".join(text.split()) for text in texts]
    return [best for best, *_ in await service.translate(texts, *found, glossary=glossary)]
