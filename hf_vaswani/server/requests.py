"""Reads requests, as JSON, as a form or from the address, into checked values."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Security
from fastapi.security import APIKeyHeader, APIKeyQuery
from pydantic import BaseModel, ValidationError
from python_multipart.multipart import create_form_parser
from starlette.requests import Request

from .accounts import APIError, Limits, quoted

Model = TypeVar("Model", bound=BaseModel)
# What is wrong with a body is said in the answer.
logging.getLogger("python_multipart").setLevel(logging.ERROR)

JSON, FORM, UPLOAD = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
# What the OpenAPI page says of keys.
DEEPL_KEY = Security(
    APIKeyHeader(name="Authorization", scheme_name="DeepL", description="DeepL-Auth-Key KEY", auto_error=False)
)
LIBRETRANSLATE_KEY = Security(
    APIKeyQuery(name="api_key", scheme_name="LibreTranslate", description="also in the body", auto_error=False)
)
# What precedes a key in the header, and the names of fields that have one.
SCHEMES, KEY_FIELDS = ("deepl-auth-key", "bearer"), ("api_key", "auth_key")
# Fields of a request besides its texts, and lists and objects in its JSON besides those in its characters.
MOST_FIELDS = 1000
FIELD_END = re.compile(rb'"\s*:')
ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Larger bodies are read in a thread, while others are answered.
INLINE_BYTES = 32 * 1024
# Larger ones are glossaries, which have few fields.
LARGE_BYTES = 1_500_000
MOST_NAME = 255  # characters of a file's name


# The fields of a request by name: texts, numbers, lists, and uploads, until [`checked`] makes a typed value of them.
Fields = dict[str, Any]


@dataclass(frozen=True)
class Upload:
    """A file that a form has."""

    name: str
    content: bytes


async def read_fields(request: Request, limits: Limits, in_thread: Callable[..., Awaitable[Fields]]) -> Fields:
    """The fields of a request; those of a form that occur several times as lists.

    All text is UTF-8, percent-encoded or not.

    Args:
        in_thread: does some work while others are answered.

    Raises:
        APIError: the body is not what its content type says.
    """
    body = await request.body()
    arguments = body, request.headers.get("content-type", ""), limits
    fields = _read_form(request.scope["query_string"], limits)
    if len(body) <= INLINE_BYTES:
        return fields | _read_body(*arguments)
    return fields | await in_thread(_read_body, *arguments)


def sent_key(request: Request, fields: Mapping[str, object] | None = None) -> object:
    """The key of a request: from its header as DeepL's clients send it, or else from its fields; `None` without one.

    Args:
        fields: those of the body and the address; `None` for the address alone.

    Raises:
        APIError: the address cannot be read.
    """
    scheme, _, key = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in SCHEMES and key.strip():
        try:
            return key.strip().encode("latin-1").decode()
        except UnicodeDecodeError:
            return key.strip()
    if fields is None:
        fields = _read_form(request.scope["query_string"], Limits())
    return next((fields[name] for name in KEY_FIELDS if fields.get(name)), None)


def _read_body(body: bytes, content_type: str, limits: Limits) -> Fields:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == FORM:
        return _read_form(body, limits)
    if kind == UPLOAD:
        return _read_multipart(body, content_type, limits)
    # Python's garbage collector looks at all lists and objects again and again, and nothing else runs meanwhile.
    if body.count(b"[") + body.count(b"{") > limits.characters + MOST_FIELDS:
        raise APIError(400, "Invalid request: the body has too many lists and objects")
    if len(body) > LARGE_BYTES and any(count > MOST_FIELDS for count, _ in enumerate(FIELD_END.finditer(body))):
        raise APIError(400, "Invalid request: the body has too many fields")
    try:
        content = json.loads(body) if body.strip() else {}
        if ESCAPED_SURROGATE.search(body):
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise APIError(400, "Invalid request: it holds half of a surrogate pair, which is not a character") from None
    except (ValueError, RecursionError) as error:
        raise APIError(400, f"Invalid request: the body cannot be read: {quoted(error)}") from None
    if not isinstance(content, dict):
        raise APIError(400, "Invalid request: the body must be a JSON object")
    return content


def _read_form(encoded: bytes, limits: Limits) -> Fields:
    most = limits.texts + MOST_FIELDS
    try:
        items = parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=most)
    except UnicodeDecodeError:
        raise APIError(400, "Invalid request: it is not in UTF-8") from None
    except ValueError:
        raise APIError(400, f"Invalid request: it has more than {most:,} fields") from None
    return _grouped(items)


def _read_multipart(body: bytes, content_type: str, limits: Limits) -> Fields:
    items: list[tuple[str, Any]] = []

    def add(name: bytes | None, value: object) -> None:
        if len(items) >= limits.texts + MOST_FIELDS:
            raise APIError(400, f"Invalid request: it has more than {limits.texts + MOST_FIELDS:,} fields")
        items.append(((name or b"").decode(), value))

    def add_file(file: object) -> None:
        file.file_object.seek(0)
        add(file.field_name, Upload((file.file_name or b"").decode(), file.file_object.read()))

    try:
        parser = create_form_parser(
            {"Content-Type": content_type.encode("latin-1")},
            lambda field: add(field.field_name, (field.value or b"").decode()),
            add_file,
            # Nothing of a request is written to the disk.
            {"MAX_MEMORY_FILE_SIZE": len(body) + 1},
        )
        parser.write(body)
        parser.finalize()
    except UnicodeDecodeError:
        raise APIError(400, "Invalid request: it is not in UTF-8") from None
    except ValueError as error:  # also the library's own errors
        raise APIError(400, f"Invalid request: the body cannot be read: {quoted(error)}") from None
    return _grouped(items)


def _grouped(items: list[tuple[str, Any]]) -> Fields:
    fields: Fields = {}
    for name, value in items:
        name = name.removesuffix("[]")
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields


def checked(kind: type[Model], fields: Fields) -> Model:
    """Fields as a value of a pydantic model.

    Raises:
        APIError: a field is missing or wrong; the message names it.
    """
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = next((str(part) for part in first["loc"] if not str(part).startswith(("str", "list"))), "")
        if first["type"] == "missing":
            raise APIError(400, f"Invalid request: missing {name} parameter") from None
        message = first["msg"].removeprefix("Value error, ")
        raise APIError(400, f"Invalid request: {name}: {message}" if name else f"Invalid request: {message}") from None


def uploaded_file(fields: Fields, most: int) -> Upload:
    """The uploaded file of a request.

    Raises:
        APIError: there is none, it is empty, or it is too large.
    """
    upload = fields.get("file")
    if not isinstance(upload, Upload):
        raise APIError(400, "Invalid request: missing file parameter")
    if len(upload.content) > most:
        raise APIError(413, f"Invalid request: the file has more than {most:,} bytes")
    if len(upload.name) > MOST_NAME:
        raise APIError(400, f"Invalid request: the file's name has more than {MOST_NAME} characters")
    if not upload.content:
        raise APIError(400, "Invalid request: the file is empty")
    return Upload(upload.name or "document.txt", upload.content)


def body_of(*kinds: str, model: type[BaseModel]) -> dict[str, object]:
    """What the OpenAPI page says of the body of a request that is read with [`read_fields`]."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
