"""The YAML of recipes: numbers are decimal, dates are text, and duplicate keys are errors."""

import re
from typing import Any

import yaml

from ..errors import reason

# YAML 1.1, which PyYAML reads, takes 0100 for 64, 1:30 for 90 and 2023-02-30 for an invalid date. As in YAML 1.1, 1e-3
# is text, which is converted where a number is expected, so that 87e3451 stays the name of a commit.
NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0|[1-9][0-9_]*)$"),
    "tag:yaml.org,2002:float": re.compile(
        r"([-+]?(\.[0-9]+|(0|[1-9][0-9_]*)\.[0-9]*)([eE][-+][0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
}
MERGE = "tag:yaml.org,2002:merge"
OTHERS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", MERGE)


class RecipeLoader(yaml.SafeLoader):
    """PyYAML's safe loader with fewer implicit types."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in OTHERS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Compose as PyYAML does, but refuse duplicate keys, of which it would silently keep the last."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE):
            if key.value in seen:
                raise yaml.composer.ComposerError(None, None, f"key '{key.value}' is given twice", key.start_mark)
            seen.add(key.value)
        return node


for tag, pattern in NUMBERS.items():
    RecipeLoader.add_implicit_resolver(tag, pattern, list("-+.0123456789"))


def read_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    try:
        return yaml.load(text, RecipeLoader)
    except yaml.YAMLError:
        raise
    except Exception as error:  # of many types, where a value does not fit its tag
        raise yaml.YAMLError(reason(error)) from None
