"""The routes of DeepL's API for glossaries: those of one pair of languages (v2), and of several (v3)."""

from collections.abc import Callable
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from .accounts import APIError
from .catalog import LONGEST_CODE, public_code
from .deepl import LANGUAGE_FIELDS
from .glossaries import Dictionary, StoredGlossary, combined, parse_entries
from .requests import DEEPL_KEY, FORM, JSON, Fields, body_of, checked
from .service import Service

MOST_NAME = 1000  # characters
SEPARATORS = {"tsv": "\t", "csv": ","}


class LanguagesRequest(BaseModel):
    source_lang: str = Field(max_length=LONGEST_CODE)
    target_lang: str = Field(max_length=LONGEST_CODE)


class DictionaryRequest(LanguagesRequest):
    entries: str = Field(description="a term and its translation a line")
    entries_format: Literal["tsv", "csv"]


class GlossaryRequest(DictionaryRequest):
    name: str = Field(min_length=1, max_length=MOST_NAME)


class DictionariesRequest(BaseModel):
    name: str = Field(min_length=1, max_length=MOST_NAME)
    dictionaries: list[DictionaryRequest] = Field(min_length=1, fail_fast=True)


class ChangeRequest(BaseModel):
    name: str | None = Field(None, min_length=1, max_length=MOST_NAME)
    dictionaries: list[DictionaryRequest] = Field([], fail_fast=True)


def make_router(service: Service) -> APIRouter:
    router, stored = APIRouter(tags=["DeepL"], dependencies=[DEEPL_KEY]), service.glossaries

    async def find(request: Request, number: str) -> StoredGlossary:
        return stored.find(number, service.authenticate(request, await service.read_fields(request)))

    async def change(
        request: Request, number: str, edit: Callable[[Fields], Callable[[StoredGlossary], StoredGlossary]]
    ) -> StoredGlossary:
        """Change a glossary by what `edit` makes of the fields, in a thread: entries may be many."""
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        return await service.in_thread(lambda: stored.change(number, account, edit(fields)))

    def read(request: DictionaryRequest) -> Dictionary:
        source, target = _base(request.source_lang), _base(request.target_lang)
        if service.route(source, target, LANGUAGE_FIELDS).route is None:
            raise APIError(400, f"{source} is not translated to {target} here")
        entries = parse_entries(request.entries, SEPARATORS[request.entries_format])
        return Dictionary(source_lang=source, target_lang=target, entries=entries)

    @router.get("/v2/glossary-language-pairs")
    async def pairs(request: Request) -> dict[str, list[dict[str, str]]]:
        """The pairs that glossaries can be created for."""
        service.authenticate(request, await service.read_fields(request))
        codes = dict.fromkeys((_base(pair.source), _base(pair.target)) for pair in service.catalog.routes)
        return {"supported_languages": [{"source_lang": one, "target_lang": other} for one, other in codes]}

    @router.post("/v2/glossaries", status_code=201, openapi_extra=body_of(JSON, FORM, model=GlossaryRequest))
    async def create_one(request: Request) -> dict[str, object]:
        """Create a glossary for one pair."""
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        call = checked(GlossaryRequest, fields)
        return _single(await service.in_thread(lambda: stored.create(call.name, [read(call)], account)))

    @router.get("/v2/glossaries")
    async def list_single(request: Request) -> dict[str, list[dict[str, object]]]:
        """The glossaries of one pair each."""
        own = stored.of_account(service.authenticate(request, await service.read_fields(request)))
        return {"glossaries": [_single(one) for one in own if len(one.dictionaries) == 1]}

    @router.get("/v2/glossaries/{number}")
    async def single(request: Request, number: str) -> dict[str, object]:
        """A glossary of one pair."""
        return _single(await find(request, number))

    @router.get("/v2/glossaries/{number}/entries")
    async def single_entries(request: Request, number: str) -> Response:
        """The entries of a glossary of one pair, with tabs between the terms."""
        (dictionary,) = _only(await find(request, number))
        return Response(_table(dictionary), media_type="text/tab-separated-values")

    @router.post("/v3/glossaries", status_code=201, openapi_extra=body_of(JSON, FORM, model=DictionariesRequest))
    async def create(request: Request) -> dict[str, object]:
        """Create a glossary for several pairs."""
        fields = await service.read_fields(request)
        account = service.authenticate(request, fields)
        call = checked(DictionariesRequest, fields)
        return _info(
            await service.in_thread(
                lambda: stored.create(call.name, [read(one) for one in call.dictionaries], account)
            )
        )

    @router.get("/v3/glossaries")
    async def list_all(request: Request) -> dict[str, list[dict[str, object]]]:
        """All glossaries."""
        own = stored.of_account(service.authenticate(request, await service.read_fields(request)))
        return {"glossaries": [_info(one) for one in own]}

    @router.get("/v3/glossaries/{number}")
    async def one(request: Request, number: str) -> dict[str, object]:
        """A glossary."""
        return _info(await find(request, number))

    @router.patch("/v3/glossaries/{number}", openapi_extra=body_of(JSON, FORM, model=ChangeRequest))
    async def change_glossary(request: Request, number: str) -> dict[str, object]:
        """Rename a glossary, or add entries to its dictionaries."""

        def edit(fields: Fields) -> Callable[[StoredGlossary], StoredGlossary]:
            call = checked(ChangeRequest, fields)
            new = combined(read(one) for one in call.dictionaries)

            def merge(glossary: StoredGlossary) -> StoredGlossary:
                for dictionary in new:
                    glossary = glossary.merged(dictionary)
                return glossary.model_copy(update={"name": call.name or glossary.name})

            return merge

        return _info(await change(request, number, edit))

    @router.get("/v3/glossaries/{number}/entries")
    async def entries(request: Request, number: str) -> dict[str, object]:
        """The entries of a pair."""
        glossary = await find(request, number)
        call = checked(LanguagesRequest, await service.read_fields(request))
        dictionary = glossary.find(_base(call.source_lang), _base(call.target_lang))
        table = {"entries": _table(dictionary), "entries_format": "tsv"}
        return {"dictionaries": [{**dictionary.model_dump(exclude={"entries"}), **table}]}

    @router.put("/v3/glossaries/{number}/dictionaries", openapi_extra=body_of(JSON, FORM, model=DictionaryRequest))
    async def replace(request: Request, number: str) -> dict[str, object]:
        """Set the entries of a pair."""
        new: list[Dictionary] = []

        def edit(fields: Fields) -> Callable[[StoredGlossary], StoredGlossary]:
            new.append(read(checked(DictionaryRequest, fields)))
            return lambda glossary: glossary.replaced(new[0])

        await change(request, number, edit)
        return _count(new[0])

    @router.delete("/v3/glossaries/{number}/dictionaries", status_code=204)
    async def delete_dictionary(request: Request, number: str) -> Response:
        """Delete the entries of a pair."""

        def edit(fields: Fields) -> Callable[[StoredGlossary], StoredGlossary]:
            call = checked(LanguagesRequest, fields)

            def remove(glossary: StoredGlossary) -> StoredGlossary:
                gone = glossary.find(_base(call.source_lang), _base(call.target_lang))
                rest = [own for own in glossary.dictionaries if own is not gone]
                return glossary.model_copy(update={"dictionaries": rest})

            return remove

        await change(request, number, edit)
        return Response(status_code=204)

    @router.delete("/v2/glossaries/{number}", status_code=204)
    @router.delete("/v3/glossaries/{number}", status_code=204)
    async def delete(request: Request, number: str) -> Response:
        """Delete a glossary."""
        account = service.authenticate(request, await service.read_fields(request))
        await service.in_thread(stored.delete, number, account)
        return Response(status_code=204)

    return router


def _base(code: str) -> str:
    """The language of a code without its region: glossaries are for all regions."""
    return public_code(code).partition("-")[0]


def _count(dictionary: Dictionary) -> dict[str, object]:
    return {**dictionary.model_dump(exclude={"entries"}), "entry_count": len(dictionary.entries)}


def _info(glossary: StoredGlossary) -> dict[str, object]:
    dictionaries = [_count(dictionary) for dictionary in glossary.dictionaries]
    return {**glossary.model_dump(include={"glossary_id", "name", "creation_time"}), "dictionaries": dictionaries}


def _only(glossary: StoredGlossary) -> list[Dictionary]:
    if len(glossary.dictionaries) != 1:
        raise APIError(400, f"Glossary {glossary.glossary_id} is not for one pair of languages; use /v3/glossaries")
    return glossary.dictionaries


def _single(glossary: StoredGlossary) -> dict[str, object]:
    (dictionary,) = _only(glossary)
    known = glossary.model_dump(include={"glossary_id", "name", "creation_time"})
    return {**known, "ready": True, **_count(dictionary)}


def _table(dictionary: Dictionary) -> str:
    return "\n".join(f"{source}\t{target}" for source, target in dictionary.entries.items())
