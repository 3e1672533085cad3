"""The server's application with models that write in capitals, in this process."""

import asyncio

import pytest

pytest.importorskip("fastapi_offline")

from starlette.testclient import TestClient

from hf_vaswani.errors import InputError
from hf_vaswani.server.accounts import Account, Accounts, APIError, Limits
from hf_vaswani.server.api import make_app
from hf_vaswani.server.catalog import Catalog, Pair, Route
from hf_vaswani.server.documents import DocumentReader
from hf_vaswani.server.glossaries import Glossaries
from hf_vaswani.server.messages import Pairs, TextError, Translated, Translation


class Shouting:
    """Stands in for the handle of a deployment: `remote` methods, which capitalize.

    Attributes:
        chunks: what it was given.
    """

    def __init__(self):
        self.chunks = []
        self.seconds = 0.0
        self.translate = self.align = self.check = self

    async def remote(self, chunk=None):
        if chunk is None:
            return True
        if isinstance(chunk, Pairs):
            return [None] * len(chunk.texts)
        self.chunks.append(chunk)
        await asyncio.sleep(self.seconds)
        if "impossible" in chunk.texts:
            raise TextError("it cannot be encoded")
        found = tuple(
            Translation(
                (text.upper(), *(f"{text.upper()}{n}" for n in range(1, chunk.n_best))),
                ("doubtful",) if "doubtful" in text else (),
            )
            for text in chunk.texts
        )
        return Translated(found, len(chunk.texts), len(chunk.texts), 0.0)


class ReaderHere(DocumentReader):
    """Reads documents in this process: another one takes seconds to start."""

    async def _run(self, work, *arguments):
        try:
            return work(*arguments)
        except InputError as error:
            raise APIError(400, f"Invalid file: {error}") from None


@pytest.fixture
def model():
    return Shouting()


@pytest.fixture
def serve(model):
    """Makes a client of a server for German, English and French."""

    def make(accounts=None, glossaries=None, **limits):
        codes = [("de", "en"), ("en", "de"), ("fr", "en")]
        catalog = Catalog({"m": "folder"}, {Pair(*pair): Route("m") for pair in codes})
        known = None if accounts is None else {key: Account(**values) for key, values in accounts.items()}
        app = make_app(catalog, {"m": model}, Accounts(known), Limits(**limits), Glossaries(glossaries))
        app.state.service.reader = ReaderHere()
        return TestClient(app, raise_server_exceptions=False)

    return make


@pytest.fixture
def client(serve):
    return serve()
