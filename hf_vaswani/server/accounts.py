"""Who may use the server, how much, and how large a request may be."""

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..files import reading

KEYS_VARIABLE = "HF_VASWANI_KEYS"
MINUTE = 60.0
QUOTED = 100  # characters


class Account(BaseModel):
    """What the keys file says of one key."""

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


class APIError(Exception):
    """A request that is not served.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def quoted(value: object, most: int = QUOTED) -> str:
    """A value of a request as an error quotes it: not more than its beginning."""
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}…"


@dataclass
class _Use:
    characters: int = 0
    recent: deque[float] = field(default_factory=deque)


class Accounts:
    """Counts what each key has used.

    Args:
        accounts: the accounts by key; `None` if no keys are needed.
    """

    def __init__(self, accounts: Mapping[str, Account] | None):
        self.accounts = accounts
        self.used: dict[str, _Use] = {}

    @property
    def needs_key(self) -> bool:
        return self.accounts is not None

    def check_key(self, key: object) -> str:
        """The key, "" on a server without keys.

        Raises:
            APIError: there is no such key.
        """
        if self.accounts is None:
            return ""
        if not key or not isinstance(key, str) or key not in self.accounts:
            raise APIError(403, "Invalid API key" if key else "An API key is required")
        return key

    def authenticate(self, key: object) -> str:
        """The key that a request counts for, as in [`check_key`].

        Raises:
            APIError: there is no such key, or it was used too often within a minute.
        """
        known = self.check_key(key)
        most = self.accounts[known].requests_per_minute if self.accounts is not None else None
        if most:
            recent, now = self._use(known).recent, time.monotonic()
            while recent and now - recent[0] > MINUTE:
                recent.popleft()
            if len(recent) >= most:
                raise APIError(429, f"Too many requests: this key has {most} a minute")
            recent.append(now)
        return known

    @contextmanager
    def charged(self, key: str, characters: int) -> Iterator[None]:
        """Count characters for a key, unless the block fails; errors as in [`charge`]."""
        self.charge(key, characters)
        try:
            yield
        except BaseException:
            self.refund(key, characters)
            raise

    def charge(self, key: str, characters: int) -> None:
        """Count characters for a key.

        Raises:
            APIError: the key's quota does not suffice.
        """
        used, limit = self._use(key), self.limit(key)
        if limit is not None and used.characters + characters > limit:
            raise APIError(456, "Quota exceeded: this key has no characters left for this request")
        used.characters += characters

    def refund(self, key: str, characters: int) -> None:
        """Take back what was charged."""
        self._use(key).characters -= characters

    def used_characters(self, key: str) -> int:
        return self._use(key).characters

    def limit(self, key: str) -> int | None:
        account = (self.accounts or {}).get(key)
        return account.characters if account else None

    def _use(self, key: str) -> _Use:
        return self.used.setdefault(key, _Use())


def read_accounts(path: str | None) -> dict[str, Account] | None:
    """The keys of a file, and those in the environment, which are separated by commas.

    A server with a keys file needs a key for each request, also if the file has none.

    Args:
        path: JSON object of accounts by key: `{"KEY": {"name": "…", "characters": 500000}}`.

    Returns:
        The accounts by key, or `None` without a file and without keys in the environment.

    Raises:
        InputError: the file cannot be read, others may read it, or it holds something else.
    """
    from_environment = os.environ.get(KEYS_VARIABLE, "")
    accounts = {key.strip(): Account() for key in from_environment.split(",") if key.strip()}
    if path is None:
        if from_environment and not accounts:
            raise InputError(f"{KEYS_VARIABLE} is set, but holds no key. Set it to key1,key2, or unset it.")
        return accounts or None
    with reading(path):
        text, mode = Path(path).read_text(encoding="utf-8"), Path(path).stat().st_mode
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"{path} holds keys, but other users may read it. Protect it: chmod 600 {path}")
    try:
        found = json.loads(text, object_pairs_hook=_distinct)
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        for key in found:
            if not key or key != key.strip():
                raise ValueError(f"the key {key!r} is empty, or begins or ends with a space")
        own = {key: _account(value, number) for number, (key, value) in enumerate(found.items(), start=1)}
        return accounts | own
    except (ValueError, RecursionError) as error:
        raise InputError(
            f'{path} is not a file of keys ({error}). Write {{"KEY": {{"characters": 500000}}}}'
        ) from None


def _account(value: object, number: int) -> Account:
    """The account of a key, which is a secret: an error says only which one it is."""
    known = ", ".join(Account.model_fields)
    if not isinstance(value, dict):
        raise ValueError(f"the account of key {number} is not an object with {known}")
    if unknown := [name for name in value if name not in Account.model_fields]:
        raise ValueError(f"the account of key {number} has the field {unknown[0]!r}; there are {known}")
    try:
        return Account.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place, message = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Input should be ")
        raise ValueError(f"the account of key {number}: {place} must be {message}") from None


def _distinct(items: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(items)
    if len(found) < len(items):
        repeated = next(name for name in found if sum(name == other for other, _ in items) > 1)
        raise ValueError(f"{repeated!r} is there twice")
    return found
