"""YAML as recipes are written in it: numbers are decimal, a date is text, and no key stands twice in one place."""

import re
from typing import Any

import yaml

from ..errors import reason

# YAML 1.1, which PyYAML reads, takes 0100 for 64, 1:30 for 90 and 2023-02-30 for a date that is none. As in it, 1e-3
# is text, which becomes a number where one is wanted, and 87e3451 stays the name of a commit.
NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0|[1-9][0-9_]*)$"),
    "tag:yaml.org,2002:float": re.compile(
        r"([-+]?(\.[0-9]+|(0|[1-9][0-9_]*)\.[0-9]*)([eE][-+][0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
}
MERGE = "tag:yaml.org,2002:merge"
OTHERS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", MERGE)


class RecipeLoader(yaml.SafeLoader):
    """Reads a recipe."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in OTHERS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """As in PyYAML, where the last of two equal keys would win without a word."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE):
            if key.value in seen:
                raise yaml.composer.ComposerError(None, None, f"key '{key.value}' stands twice", key.start_mark)
            seen.add(key.value)
        return node


for tag, pattern in NUMBERS.items():
    RecipeLoader.add_implicit_resolver(tag, pattern, list("-+.0123456789"))


def read_yaml(text: str) -> Any:
    """The value that a text has in YAML.

    Raises:
        yaml.YAMLError: where it has none.
    """
    try:
        return yaml.load(text, RecipeLoader)
    except yaml.YAMLError:
        raise
    except Exception as error:  # of many kinds, where a value does not fit its tag
        raise yaml.YAMLError(reason(error)) from None
