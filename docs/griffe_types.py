"""Docstrings have types and errors as transformers writes them, "(`int`, *optional*)"; the site shows them plainly."""

import re

import griffe

TYPE = re.compile(r"(?<= )\((?P<type>[^()\n]*`[^()\n]*)\):")
ERROR = re.compile(r"^(?P<indent> *)`(?P<error>\w+)`:", re.MULTILINE)


class PlainTypes(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        if obj.docstring:
            text = TYPE.sub(lambda found: f"({re.sub('[`*]', '', found['type'])}):", obj.docstring.value)
            obj.docstring.value = ERROR.sub(r"\g<indent>\g<error>:", text)
