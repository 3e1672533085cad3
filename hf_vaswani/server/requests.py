"""Reads requests, as JSON, as a form or from the address, into checked values."""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import Request

from .accounts import Refused

Model = TypeVar("Model", bound=BaseModel)


async def read_fields(request: Request) -> dict[str, Any]:
    """The fields of a request; those of a form that occur several times as lists.

    Raises:
        Refused: the body is not what its content type says.
    """
    fields = _grouped(request.query_params.multi_items())
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            return fields | _grouped((await request.form()).multi_items())
        body = await request.body()
        content = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError, AssertionError) as error:
        raise Refused(400, f"Invalid request: the body cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise Refused(400, "Invalid request: the body must be a JSON object")
    return fields | content


def _grouped(items: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in items:
        name = name.removesuffix("[]")
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields


def checked(kind: type[Model], fields: dict[str, Any]) -> Model:
    """Fields as a value of a pydantic model.

    Raises:
        Refused: a field is missing or wrong; the message names it.
    """
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = next((str(part) for part in first["loc"] if not str(part).startswith(("str", "list"))), "")
        if first["type"] == "missing":
            raise Refused(400, f"Invalid request: missing {name} parameter") from None
        message = first["msg"].removeprefix("Value error, ")
        raise Refused(400, f"Invalid request: {name}: {message}" if name else f"Invalid request: {message}") from None


async def read_upload(fields: dict[str, Any], most: int) -> tuple[str, bytes]:
    """The name and content of an uploaded file.

    Raises:
        Refused: there is none, it is empty, or it is too large.
    """
    upload = fields.get("file")
    if not isinstance(upload, UploadFile):
        raise Refused(400, "Invalid request: missing file parameter")
    content = await upload.read(most + 1)
    if len(content) > most:
        raise Refused(413, f"Invalid request: the file has more than {most:,} bytes")
    if not content:
        raise Refused(400, "Invalid request: the file is empty")
    return upload.filename or "document.txt", content


def body_of(*kinds: str, model: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI page says of the body of a request that is read with [`read_fields`]."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
