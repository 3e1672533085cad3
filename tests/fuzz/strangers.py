"""What comes from others: cards and trails to verify, names of files to pull, links, and folders of other engines."""

import dataclasses
import random
from collections.abc import Iterator

from .folders import ACTIONS, IN_PLACE
from .runner import Input
from .world import DAMAGES

VERIFY = ("verify", "card.md", "--steps", "1")
VERIFY_RUN = ("verify", "run", "--steps", "1", "--from", "none")
CARD = ("copy", "run/README.md", "card.md")
# What a card's recipe might make a replay do elsewhere, by section and key.
WRITING = {
    ("data", "cache_dir"): "../outside/cache", ("training", "output_dir"): "../outside/run",
    ("training", "overwrite"): True, ("training", "report_to"): ["tensorboard"], ("training", "push_to_hub"): True,
    ("training", "hub_model_id"): "you/mine", ("evaluation", "rerank_with"): "../outside", ("data", "num_proc"): 2,
    ("data", "tests"): {"../../outside/x": "pairs.tsv"}, ("data", "train"): "../outside/precious.txt",
    ("tokenizer", "path"): "../outside", ("model", "preset"): "absent",
    ("training", "distill_from"): ["run"], ("evaluation", "attention"): 5, ("odd", "key"): 1,
}  # fmt: skip
BOMB = ["data: ", "  a: &a [x, x, x, x, x, x, x, x, x]"] + [
    f"  {name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in zip("abcdefgh", "bcdefghi")
]
BLOCKS = {"a bomb": "\n".join(BOMB), "a bomb of a key": "\n".join([*BOMB, "  tests: *i"]), "nothing": "",
          "null": "null", "a list": "[]", "stages": "stages: {a: {train: {}}}", "no data": "training: {seed: 1}",
          "Python": "data: !!python/object/apply:os.system ['touch ../outside/owned']"}  # fmt: skip
ENVIRONMENTS = ([], [{}], [{"processes": 10**6}], [{"processes": 0}], [{"threads": -1}], [{"device": "cuda"}],
                [{"loop": "x"}], [{"mixed_precision": "x"}], [{"first_step": 10**9}])  # fmt: skip
UNSAFE = ("last-checkpoint//{outside}/x", "{outside}/x", "../x", "a/../../x", "a//x", "./x", "a/.", "x/", "", "a\\x",
          "C:/x", "a/C:x", "\\\\a\\x", "a\0x", "\ud800", "../outside/precious.txt", "last-checkpoint/../../x",
          "last-checkpoint/")  # fmt: skip
ODD_NAMES = ("a b", "é", "漢字", "-x", "~", "CON", "a\nb", ".hidden", "a/" * 200 + "x", ".lock", "update-1/x", "*",
             "[a]", "last-checkpoint/config.json", ".cache/huggingface/x")  # fmt: skip
WRITTEN = ("log.jsonl", "trail.json", "README.md", "results.json", "curves.png", "training_recipe.yaml",
           "test_translations.txt", "architecture/config.json", "architecture/generation_config.json", "config.json",
           "pictures/curves.png", "tokenizer/tokenizer.json", "model.safetensors", "README.md.old", ".final.part",
           ".uploads", "hf_vaswani", "checkpoints", "best", "pictures", "checkpoints/update-00000004",
           "checkpoints/update-00000006.part")  # fmt: skip
TARGETS = ("../outside/precious.txt", "../outside/absent", "../outside", "mine.txt", "mine", "/dev/null")
ENGINES = {
    "ctranslate2": ("config.json", "model.bin", "shared_vocabulary.json", "tokenizer.json", "generation_config.json"),
    "onnx": ("config.json", "onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx",
             "onnx/model.onnx_data", "tokenizer.json", "generation_config.json"),
}  # fmt: skip
ON_ENGINE = {
    "translate": ("translate", "{}", "--input", "text.txt", "--output", "out.txt", "--max_new_tokens", "3"),
    "score": ("score", "{}", "--source", "text.txt", "--target", "refs.txt"),
    "export": ("export", "{}", "out"),
    "fine-tune": ("train", "recipe.yaml", "--output_dir", "out", "--max_steps", "1", "--start_from", "{}"),
    "push": ("push", "{}", "you/de-en"),
}


def inputs(choose: random.Random) -> Iterator[Input]:
    """All inputs of this surface."""
    yield from cards(choose)
    yield from trails(choose)
    yield from names()
    yield from links(choose)
    yield from engines(choose)


def cards(choose: random.Random) -> Iterator[Input]:
    """A run's card, changed in one place, and verified."""
    yield dataclasses.replace(of_card("as it is"), refused=False)
    for (section, name), value in WRITING.items():
        yield of_card(f"{section}.{name}", ("in_card", "card.md", "yaml", "set_key", section, name, value))
    for name, content in BLOCKS.items():
        yield of_card(f"recipe of {name}", ("in_card", "card.md", "yaml", "write", content))
    for kind in choose.sample(list(DAMAGES), 6):
        yield of_card(kind, ("damage", "card.md", kind))
        language = choose.choice(("yaml", "json"))
        yield of_card(f"{language}: {kind}", ("in_card", "card.md", language, "damage", kind))
    for number in range(10):
        language = choose.choice(("yaml", "json"))
        step = ("in_card", "card.md", language, "odd_value", choose.randrange(10**6))
        yield of_card(f"{language}: odd value {number}", step)


def trails(choose: random.Random) -> Iterator[Input]:
    """A run's trail, damaged or with odd values, when it is verified, resumed or described."""
    actions = {"verify": VERIFY_RUN, **{name: ACTIONS[name] for name in ("resume", "finish again", "card")}}
    odd = [("damage", "run/trail.json", kind) for kind in [*DAMAGES, *IN_PLACE]]
    odd += [("odd_value", "run/trail.json", choose.randrange(10**6)) for _ in range(20)]
    odd += [("set_value", "run/trail.json", value, "environments") for value in ENVIRONMENTS]
    for number, step in enumerate(odd):
        action = choose.choice(list(actions))
        yield Input(f"trail {number}, {step[0]} {step[2]!a:.40}: {action}", actions[action], steps=(step,))


def names() -> Iterator[Input]:
    """Names of the files in a repository that is pulled, and links where the download gathers them."""
    for name in UNSAFE:
        code = f"import os\npull_with({name!r}.replace('{{outside}}', os.path.abspath('../outside')))"
        yield Input(f"pull {name!a:.60}", code=code, words=("could be written outside",), refused=True)
    for name in ODD_NAMES:
        yield Input(
            f"pull {name!a:.60}", code=f"pull_with({name!r})", words=("download", "written"), writes=("work/out*",)
        )
    for path, target in (
        (".out.part", "../outside"),
        (".out.part/.lock", "../../outside/precious.txt"),
        ("out", "mine"),
    ):
        steps = (("folder", ".out.part"),) if "/" in path else ()
        steps += (("link", path, target),)
        yield Input(f"pull with a link {path}", code="pull_with()", steps=steps, words=("link", "empty"), refused=True)


def links(choose: random.Random) -> Iterator[Input]:
    """Links in the place of what a run writes."""
    for path in WRITTEN:
        for target in TARGETS:
            action = choose.choice(("resume", "finish again", "overwrite", "card", "curves"))
            steps = (("plant", f"run/{path}", target),)
            yield Input(f"link run/{path} to {target}: {action}", ACTIONS[action], steps=steps)


def engines(choose: random.Random) -> Iterator[Input]:
    """The folder of a model for another engine, damaged, or with odd values in its files."""
    for engine, files in ENGINES.items():
        for action, command in ON_ENGINE.items():
            refused = None if action in ("translate", "score") else True
            yield Input(f"{engine} as it is: {action}", filled(command, engine), refused=refused)
        odd = [(name, ("damage", f"{engine}/{name}", kind)) for name in files
               for kind in choose.sample([*DAMAGES, *IN_PLACE], 8)]  # fmt: skip
        odd += [
            (name, ("odd_value", f"{engine}/{name}", choose.randrange(10**6)))
            for name in files
            for _ in range(8)
            if name.endswith(".json")
        ]
        for number, (name, step) in enumerate(odd):
            action = choose.choice(list(ON_ENGINE))
            what = f"{engine} {number}, {name}: {step[2]}: {action}"
            yield Input(what, filled(ON_ENGINE[action], engine), steps=(step,))


def filled(command: tuple[str, ...], engine: str) -> tuple[str, ...]:
    return tuple(word.format(engine) for word in command)


def of_card(what: str, *steps: tuple) -> Input:
    return Input(f"verify a card: {what}", VERIFY, steps=(CARD, *steps))
