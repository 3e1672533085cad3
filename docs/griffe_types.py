"""Types in docstrings stand as transformers writes them, "(`int`, *optional*)"; the site shows them without marks."""

import re

import griffe

TYPE = re.compile(r"(?<= )\((?P<type>[^()\n]*`[^()\n]*)\):")


class PlainTypes(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        if obj.docstring:
            obj.docstring.value = TYPE.sub(
                lambda found: f"({re.sub('[`*]', '', found['type'])}):", obj.docstring.value
            )
