"""Entities of XML that are refused: nothing is ever fetched, and no short text becomes an endless one."""

import re
from collections.abc import Callable
from typing import Any

from ..errors import InputError

# To an entity that is declared elsewhere: declarations with such references can grow without end.
REFERENCE = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)[^\s#;]+;")


def refuse_entities(parser: Any, where: Callable[[], str]) -> None:
    """Let a parser refuse declarations of entities that refer to other entities or to files.

    Args:
        parser: from `expat.ParserCreate()`; it then raises an [`InputError`].
        where: tells where the parser is, to begin the message.
    """

    def declare(name, is_parameter, value, base, system, public, notation) -> None:
        if value is None or is_parameter or REFERENCE.search(value):
            raise InputError(
                f"{where()}: the entity {name} refers to another file or entity, which is not read. Remove its "
                "declaration."
            )

    parser.EntityDeclHandler = declare
