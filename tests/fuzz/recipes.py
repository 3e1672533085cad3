"""Recipes: each key with values of the wrong type, odd YAML, text sources, conflicts, options."""

import dataclasses
import json
import random
import typing
from collections.abc import Iterator

from hf_vaswani.training.recipe.recipe import recipe_keys

from .runner import Input
from .world import PACKED, RECIPE, TEXTS

TRAIN = ("train", "odd.yaml", "--output_dir", "out")
# As written in a file.
VALUES = (
    "0", "-1", "1", "2.5", "1e300", "1000000000000000000", "99999999999999999999", ".nan", ".inf", '""', "abc",
    '"\\u0663"', "[]", "{}", "[1, [2]]", "{a: 1}", "[null]", "[a, a]", "true", "null", "2026-01-01", '"a\\nb"',
    "!!binary aGk=", "../outside/precious.txt", "mine", '"\\ud800"', '"\\0"', "text.txt", "x" * 300, "1_000", "0o17",
    "1e-3", "run", "no", "- 1", "*none", '"%s {x}"', "[0.5, 0.5]", "0.5", "3", "built-in",
)  # fmt: skip
OF_TYPE = {
    bool: ("true", "false"),
    int: ("0", "-1", "1", "7", "4294967296", "9223372036854775807", "1000000000000000000"),
    float: ("0", "-1", "-0.0", "0.5", "1", "1e300", "1.0e-300", ".nan", ".inf", "-.inf"),
    str: ("train.x", "pairs.tsv", "x", '""', "run", "model", "other", "mine", '"\\ud800"', "../../outside", "x/y"),
    list: ("[]", '[""]', "[x]", "[0.5, 0.5]", "[1, 0, 1]", "[-1, .nan]", "[model, model.encoder]", "[tensorboard]"),
    dict: ("{}", "{a: b}", "{pad: x}", "{pad: '[P]', eos: '[P]'}", "{unk: 1}", "[]", "{source: text.txt}"),
}  # fmt: skip
LINES = {  # contents of entire files
    "empty": "", "null": "null", "a list": "[1, 2]", "text": "recipe", "a number": "1", "blank": " \n\t\n",
    "tab": "data:\n\ttrain: x\n", "BOM": "\ufeff{good}", "CRLF": "{crlf}", "two documents": "{good}\n---\n{good}",
    "python object": "data: !!python/object/apply:os.system ['touch ../outside/owned']",
    "python name": "model: {preset: !!python/name:os.system ''}",
    "python tuple": "training: {freeze: !!python/tuple [0.9, 0.98]}",
    "unknown tag": "data: !mine {train: pairs.tsv}", "set": "data: !!set {train, test}",
    "ordered": "data: !!omap [train: x]", "undefined alias": "data: *nothing", "its own alias": "data: &a {train: *a}",
    "list in itself": "data: &a [*a]", "merge": "{good}\ntraining2: {<<: {max_steps: 1}}",
    "merge of text": "data: {<<: x}", "merge twice": "training: {<<: [{seed: 1}, {seed: 2}], seed: 3}",
    "laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{c}: &{c} [{','.join(['*' + b] * 9)}]\n" for b, c in zip("abcdefgh", "bcdefghi")),
    "deep list": "data: " + "[" * 5000, "deep closed list": "data: " + "[" * 3000 + "]" * 3000,
    "deep mapping": "data: " + "{a: " * 3000 + "1" + "}" * 3000,
    "key twice": "training: {seed: 1, seed: 2}", "section twice": "{good}\ntraining: {seed: 2}",
    "number as section": "1: {a: 2}", "null as section": "null: {a: 2}", "list as key": "? [1, 2]\n: 3",
    "mapping as key": "? {a: 1}\n: 3", "number as key": "training: {1: 2}", "null as key": "training: {~: 2}",
    "true as key": "training: {yes: 2}", "empty key": 'training: {"": 2}', "misspelt section": "trainng: {seed: 1}",
    "misspelt key": "training: {max_update: 1}", "hyphens": "training: {max-updates: 1}",
    "capitals": "Training: {Seed: 1}", "section of text": "training: fast", "section of a list": "training: [seed, 1]",
    "section of null": "{good}\nextra: null", "unclosed": "training: {seed: 1", "unclosed quote": 'data: "abc',
    "NUL": "data: a\0b", "control": "data: a\x07b", "surrogate": "data: \ud800", "percent": "%YAML 9.9\n---\n{good}",
    "binary": "\x00\x01\x02\x7f" * 100, "huge number": "training: {seed: " + "9" * 5000 + "}",
    "huge text": "data: {name: " + "x" * 200_000 + "}", "@": "data: @x", "`": "data: `x`", "dots": "...", "?": "? ? ?",
    "JSON": "{json}", "date": "training: {seed: 2026-11-23}", "bad date": "training: {seed: 2026-02-30}",
    "sexagesimal": "training: {seed: 1:30}",
}  # fmt: skip
RECORDS = {  # files with both sides
    "no header.tsv": "a b\tb a\nc\td\n", "one column.tsv": "source\na\n", "ragged.tsv": "source\ttarget\na\tb\nc\n",
    "more cells.tsv": "source\ttarget\na\tb\tc\n", "header alone.tsv": "source\ttarget\n", "quote.csv":
    'source,target\n"a,b\nc,d\n', "quotes.csv": 'source,target\n"a ""b""",c\n"d\ne",f\n', "names twice.csv":
    "source,source,target\na,b,c\n", "semicolons.csv": "source;target\na;b\n", "NUL.csv": "source,target\na\0,b\n",
    "huge cell.csv": f"source,target\n{'a' * 200_000},b\n", "empty sides.tsv": "source\ttarget\n\tb\na\t\n",
    "list.jsonl": "[1]\n", "null.jsonl": "null\n", "number.jsonl": "1e999\n", "text.jsonl": '"x"\n',
    "cut.jsonl": '{"source": "a", "target": "b"}\n{"source": "a", "tar', "other keys.jsonl": '{"a": "b"}\n',
    "numbers.jsonl": '{"source": 1, "target": 2.5}\n', "nulls.jsonl": '{"source": null, "target": "a"}\n',
    "nested.jsonl": '{"translation": {"source": "a b", "target": "b a"}}\n' * 9, "lists.jsonl":
    '{"source": ["a"], "target": ["b"]}\n', "deep.jsonl": '{"source": ' + "[" * 5000 + "\n", "half.jsonl":
    '{"source": "\\ud800", "target": "b"}\n' * 9, "keys change.jsonl": '{"source": "a", "target": "b"}\n{"x": "a"}\n',
    "big number.jsonl": '{"source": "a", "target": ' + "9" * 5000 + "}\n", "NaN.jsonl":
    '{"source": NaN, "target": 1}\n',
    "no parquet.parquet": "PAR1 no parquet PAR1", "empty.parquet": "", "text.xlsx": "PK", "text": "a\tb\n",
}  # fmt: skip
PARQUET = {
    "good": {"source": ["a b"] * 9, "target": ["b a"] * 9}, "other columns": {"a": ["x"], "b": ["y"]},
    "numbers": {"source": [1, 2], "target": [3, 4]}, "nulls": {"source": [None, "a"], "target": ["b", None]},
    "all null": {"source": [None], "target": [None]}, "lists": {"source": [["a"]], "target": [["b"]]},
    "no rows": {"source": [], "target": []}, "bytes": {"source": [b"\xff"], "target": [b"a"]},
}  # fmt: skip
SOURCES = (
    '"a\\0.tsv"', '{source: "a\\0", target: refs.txt}',
    "pairs.tsv", "pairs.csv", "pairs.jsonl", "absent.tsv", "mine", "text.txt", '""', "[]", "{}", "[[pairs.tsv]]",
    "[pairs.tsv, pairs.csv]", "[pairs.tsv, null]", "[1]", "{file: pairs.tsv}", "{file: [pairs.tsv]}", "{file: null}",
    "{source: text.txt}", "{source: text.txt, target: refs.txt}", "{source: [text.txt], target: [refs.txt, refs.txt]}",
    "{source: {a: b}, target: refs.txt}", "{source: text.txt, target: text.txt}", "{source: mine, target: mine}",
    "{dataset: absent}", "{dataset: mine}", "{dataset: run}", "{dataset: a/b/c}",
    "{dataset: built-in, split: nowhere}",
    "{dataset: 1}", "{dataset: '../..'}", "{file: pairs.tsv, dataset: built-in}", "{fil: pairs.tsv}",
    "{file: pairs.tsv, source_column: nothing}", "{file: pairs.tsv, source_column: source, target_column: source}",
    "{file: pairs.tsv, weight: 2}", "[{file: pairs.tsv, weight: 2}, {file: pairs.csv}]",
)  # fmt: skip
WEIGHTS = ("0", "-1", "-0.0", ".nan", ".inf", "1e300", "x", "1.0e-300", "true", "[]", "10000000", "0.3", "null")
TESTS = (
    "{../../outside/x: pairs.tsv}", "{/tmp/x: pairs.tsv}", "{a/b: pairs.tsv}", "{'': pairs.tsv}", "{test: pairs.tsv}",
    "{1: pairs.tsv}", "{null: pairs.tsv}", "{a b: pairs.tsv}", "{.: pairs.tsv}", "{..: pairs.tsv}", "{a: null}",
    "{a: absent}", "{a: [pairs.tsv, pairs.csv]}", "{A: pairs.tsv, a: pairs.csv}", "{'a\\nb': pairs.tsv}",
    "{mine: pairs.tsv}", "[pairs.tsv]", "pairs.tsv", "{a: {source: text.txt}}", '{"\\ud800": pairs.tsv}',
    '{"\\0": pairs.tsv}', f"{{{'x' * 300}: pairs.tsv}}", "{漢字: pairs.tsv}", "{[1]: pairs.tsv}", "{CON: pairs.tsv}",
)  # fmt: skip
FILES = {"data": {"train": "pairs.tsv", "validation": "pairs.csv"}}


def inputs(choose: random.Random) -> Iterator[Input]:
    """All inputs of this surface."""
    good = in_yaml({})
    yield dataclasses.replace(of_file("as it is", good), refused=False)
    for name, content in LINES.items():
        content = content.replace("{good}", good).replace("{crlf}", good.replace("\n", "\r\n"))
        yield of_file(f"file: {name}", content.replace("{json}", json.dumps(RECIPE)))
    for kind in ("UTF-16", "Latin-1", "binary", "surrogates", "NUL"):
        yield Input(f"recipe file of {kind}", TRAIN, steps=(("text", "odd.yaml", kind),))
    keys = [(section, name, key.annotation) for section, keys in recipe_keys().items() for name, key in keys.items()]
    keys.remove(("training", "torch_compile", bool))  # it takes minutes
    for section, name, kind in keys:
        for value in dict.fromkeys([choose.choice(VALUES), *choose.sample(choices(kind), 2)]):
            yield of_file(f"{section}.{name} is {value[:30]}", in_yaml({section: {name: value}}))
        yield from odd_options(choose, section, name)
    for number in range(60):
        pair = choose.sample(keys, 2)
        values = [choose.choice(choices(kind)) for _, _, kind in pair]
        odd: dict = {}
        for (section, name, _), value in zip(pair, values):
            odd.setdefault(section, {})[name] = value
        yield of_file(f"{number}: {odd}", in_yaml(odd))
    yield from sources()
    yield from adapters(choose)


def adapters(choose: random.Random) -> Iterator[Input]:
    """Keys of an adapter that is trained, with odd values, alone and in combination."""
    keys = {name: choices(key.annotation) for name, key in recipe_keys()["peft"].items()}
    keys["target_modules"] += ["[q_proj, fc1]", "[all-linear, q_proj]", "[lm_head]", "[embed_tokens]", "[a.b]", "[1]"]
    keys["modules_to_save"] += ["[final_layer_norm]", "[q_proj]", "[lm_head]", "[model]", "[layers]"]
    good = {"training": {**RECIPE["training"], "start_from": "model"}, "peft": {"r": 2}}
    for name, values in keys.items():
        for value in dict.fromkeys([*values, choose.choice(VALUES)]):
            yield of_file(f"adapter, {name} is {value[:30]}", in_yaml({"peft": {name: value}}, good))
    for number in range(20):
        odd = {name: choose.choice(keys[name]) for name in choose.sample(list(keys), 3)}
        yield of_file(f"adapter {number}: {odd}", in_yaml({"peft": odd}, good))


def odd_options(choose: random.Random, section: str, name: str) -> Iterator[Input]:
    """A key on the command line, misspelled in one of several ways, or with an odd value."""
    way, value = choose.randrange(6), choose.choice([value.strip('"') for value in VALUES])
    argv, refused = {
        0: ((f"--{section}.{name}", value), None),
        1: ((f"--{name}={value}",), None),
        2: ((f"--{name.replace('_', '-')}", value), None),
        3: ((f"--{section}.{name}x", value), True),
        4: ((f"--{name}",), None),
        5: ((f"--{choose.choice(['data', 'nothing', ''])}.{name}.", value), True),
    }[way]
    command = ("train", "recipe.yaml", "--output_dir", "out", *argv)
    yield Input(f"recipe option {' '.join(argv)[:80]!r}", command, refused=refused)


def sources() -> Iterator[Input]:
    """Parallel text in all formats, and damaged files of it."""
    for place, source in enumerate(SOURCES):
        split = ("train", "validation", "test")[place % 3 if place > 3 else 0]
        yield of_file(f"data.{split}: {source}", in_yaml({"data": {split: source}}, FILES))
    for weight in WEIGHTS:
        source = f"[{{file: pairs.tsv, weight: {weight}}}, {{file: pairs.csv, weight: 1}}]"
        yield of_file(f"data.train: weight {weight}", in_yaml({"data": {"train": source}}, FILES))
    for tests in TESTS:
        yield of_file(f"data.tests: {tests[:50]}", in_yaml({"data": {"tests": tests}}, FILES))
    for name, content in RECORDS.items():
        file = f"odd_{name}".replace(" ", "_")
        recipe = in_yaml({"data": {"train": file}}, FILES)
        yield of_file(f"data.train of {name}", recipe, ("write", file, content))
    for name, columns in PARQUET.items():
        recipe = in_yaml({"data": {"train": "odd.parquet"}}, FILES)
        yield of_file(f"data.train of Parquet: {name}", recipe, ("parquet", "odd.parquet", columns))
    for place, kind in enumerate([*TEXTS, *PACKED]):
        split, side = ("train", "validation", "test")[place % 3], ("source", "target")[place % 2]
        file = "odd.txt" if kind in TEXTS else kind.replace(" ", "_")
        recipe = in_yaml({"data": {f"{split}_{side}": file}})
        yield of_file(f"data.{split}_{side} of {kind}", recipe, ("text", file, kind))


def choices(kind: typing.Any) -> list[str]:
    """Two or more values of a key's type, most of them edge cases."""
    kinds = [entry for outer in (kind, *typing.get_args(kind)) for entry in (outer, typing.get_origin(outer))]
    values = [str(choice) for entry in kinds for choice in typing.get_args(entry) if isinstance(choice, str)]
    return values + [value for entry, few in OF_TYPE.items() if entry in kinds for value in few]


def in_yaml(odd: dict[str, dict[str, str]], base: dict | None = None) -> str:
    """The good recipe with different values of some keys, given as YAML."""
    good = {**RECIPE, **(base or {})}
    lines = []
    for section in dict.fromkeys([*good, *odd]):
        values = {name: json.dumps(value) for name, value in good.get(section, {}).items()} | odd.get(section, {})
        lines += [f"{section}:", *(f"  {name}: {value}" for name, value in values.items())]
    return "\n".join(lines)


def of_file(name: str, content: str, *steps: tuple) -> Input:
    name = f"recipe {name}".encode("ascii", "backslashreplace").decode()
    return Input(name, TRAIN, steps=(*steps, ("write", "odd.yaml", content)))
