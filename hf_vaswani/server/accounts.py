"""Who may use the server, how much, and how large a request may be."""

import json
import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..files import reading

KEYS_VARIABLE = "HF_VASWANI_KEYS"
MINUTE = 60.0


class Account(BaseModel):
    """What the file of keys says of one."""

    model_config = ConfigDict(extra="forbid")

    name: str = ""
    characters: int | None = Field(None, ge=0, description="characters that may be translated while the server runs")
    requests_per_minute: int | None = Field(None, ge=1)


class Limits(BaseModel):
    """How large a request may be."""

    model_config = ConfigDict(extra="forbid")

    characters: int = Field(100_000, ge=1, description="characters of a request, over all of its texts")
    texts: int = Field(10_000, ge=1, description="texts of a request")
    body: int = Field(10 * 1024 * 1024, ge=1, description="bytes of a request, and of a document")
    seconds: float = Field(300, gt=0, description="time that a request may take")
    alternatives: int = Field(9, ge=0, description="further translations of a text")


class Refused(Exception):
    """A request that is not served.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass
class _Use:
    characters: int = 0
    recent: deque[float] = field(default_factory=deque)


class Accounts:
    """Counts what each key has used.

    Args:
        accounts: the accounts by key; none lets everybody in.
    """

    def __init__(self, accounts: Mapping[str, Account]):
        self.accounts = dict(accounts)
        self.used: dict[str, _Use] = {}

    def enter(self, key: str | None) -> str:
        """The key that a request counts for.

        Raises:
            Refused: there is no such key, or it was used too often within a minute.
        """
        if not self.accounts:
            return ""
        account = self.accounts.get(key or "")
        if account is None:
            raise Refused(403, "Invalid API key" if key else "An API key is required")
        recent, now = self._use(key or "").recent, time.monotonic()
        while recent and now - recent[0] > MINUTE:
            recent.popleft()
        if account.requests_per_minute and len(recent) >= account.requests_per_minute:
            raise Refused(429, f"Too many requests: this key has {account.requests_per_minute} a minute")
        recent.append(now)
        return key or ""

    def charge(self, key: str, characters: int) -> None:
        """Count characters for a key.

        Raises:
            Refused: the key's quota does not suffice.
        """
        used, limit = self._use(key), self.limit(key)
        if limit is not None and used.characters + characters > limit:
            raise Refused(456, "Quota exceeded: this key has no characters left for this request")
        used.characters += characters

    def used_characters(self, key: str) -> int:
        return self._use(key).characters

    def limit(self, key: str) -> int | None:
        account = self.accounts.get(key)
        return account.characters if account else None

    def _use(self, key: str) -> _Use:
        return self.used.setdefault(key, _Use())


def read_accounts(path: str | None) -> dict[str, Account]:
    """The keys of a file, and those in the environment, which are separated by commas.

    Args:
        path: JSON object of accounts by key: `{"KEY": {"name": "…", "characters": 500000}}`.

    Raises:
        InputError: the file cannot be read, others may read it, or it holds something else.
    """
    accounts = {key.strip(): Account() for key in os.environ.get(KEYS_VARIABLE, "").split(",") if key.strip()}
    if path is None:
        return accounts
    with reading(path):
        text, mode = Path(path).read_text(encoding="utf-8"), Path(path).stat().st_mode
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"{path} holds keys, but other users may read it. Protect it: chmod 600 {path}")
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        return accounts | {key: Account.model_validate(value) for key, value in found.items()}
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: an account is wrong: {place}: {first['msg']}") from None
    except ValueError as error:
        raise InputError(
            f'{path} is not a file of keys ({error}). Write {{"KEY": {{"characters": 500000}}}}'
        ) from None
