"""The YAML of recipes: numbers are decimal, dates are text, and duplicate keys are errors."""

import math
import re

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
# The most characters and values that a text may have once each alias is replaced by what it stands for, since a few
# lines can stand for billions.
LARGEST = 1_000_000
MERGE = "tag:yaml.org,2002:merge"
OTHERS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", MERGE)


class RecipeLoader(yaml.SafeLoader):
    """PyYAML's safe loader with fewer implicit types, and a limit to what aliases repeat."""

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

    def construct_document(self, node: yaml.Node) -> object:
        """Construct as PyYAML does, but refuse a document that its aliases make too large."""
        if _size(node, {}) > LARGEST:
            raise yaml.constructor.ConstructorError(
                None, None, "too large once its aliases are replaced", node.start_mark
            )
        return super().construct_document(node)


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """The number of characters and values in a node, with its aliases replaced; infinite if it contains itself.

    Args:
        known: the sizes of nodes by their identity; new ones are added.
    """
    if id(node) not in known:
        known[id(node)] = math.inf
        parts = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        length = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        known[id(node)] = 1 + length + sum(_size(part, known) for part in parts)
    return known[id(node)]


for tag, pattern in NUMBERS.items():
    RecipeLoader.add_implicit_resolver(tag, pattern, list("-+.0123456789"))


def read_yaml(text: str) -> object:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: the text is not valid YAML.
    """
    try:
        return yaml.load(text, RecipeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        is_syntax = isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError)
        remedy = ". Check the indentation, colons and quotation marks there." if is_syntax else ""
        raise yaml.YAMLError(f"{where}{error.problem}{remedy}") from None
    except yaml.YAMLError:
        raise
    except Exception as error:  # of many types, where a value does not fit its tag
        raise yaml.YAMLError(reason(error)) from None
