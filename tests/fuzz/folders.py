"""A finished run's folder with one thing in it damaged, and every command that reads it or resumes the run."""

import dataclasses
import random
from collections.abc import Iterator

from .runner import Input
from .world import DAMAGES, RUN_FILES, RUN_FOLDERS

RESUME = ("train", "recipe.yaml", "--output_dir", "run")
LONGER = ("--max_steps", "6", "--num_train_epochs", "3")
NEW = ("train", "recipe.yaml", "--output_dir", "out", "--max_steps", "1")
ACTIONS = {
    "resume": (*RESUME, *LONGER),
    "finish again": RESUME,
    "overwrite": (*RESUME, "--overwrite", "true", "--max_steps", "1"),
    "resume with the Trainer": ("train", "--trainer", *RESUME[1:], *LONGER),
    "fine-tune": (*NEW, "--start_from", "run"),
    "distill": (*NEW, "--distill_from", "run", "--tokenizer.path", "model"),
    "adapter": (*NEW, "--start_from", "run", "--r", "2"),
    "its tokenizer": (*NEW, "--tokenizer.path", "run"),
    "card": ("card", "run"),
    "card elsewhere": ("card", "run", "--output", "card.md"),
    "curves": ("curves", "run"),
    "average": ("average", "run", "--output", "out"),
    "average best": ("average", "run", "--output", "out", "--best", "1"),
    "average one": ("average", "run/checkpoints/update-00000004", "--output", "out"),
    "translate": ("translate", "run", "--input", "text.txt", "--output", "out.txt", "--max_new_tokens", "3"),
    "score": ("score", "run", "--source", "text.txt", "--target", "refs.txt"),
    "evaluate": ("evaluate", "run", "--source", "text.txt", "--reference", "refs.txt", "--metrics", "chrf"),
    "attention": ("attention", "run", "--text", "a b", "--output", "out.png"),
    "ensemble": ("translate", "model", "--ensemble", "run", "--input", "text.txt", "--output", "out.txt"),
    "export": ("export", "run", "out"),
    "import": ("import", "marian", "out"),
}
ON_ADAPTER = ("train", "recipe.yaml", "--output_dir", "adapter", "--start_from", "model", "--r", "2")
ADAPTER_ACTIONS = {
    "resume": (*ON_ADAPTER, "--max_steps", "4"),
    "finish again": (*ON_ADAPTER, "--max_steps", "2"),
    "merge": (*ON_ADAPTER, "--max_steps", "2", "--merge", "true"),
    "fine-tune": (*NEW, "--start_from", "adapter"),
    "card": ("card", "adapter"),
    "translate": ("translate", "adapter", "--input", "text.txt", "--output", "out.txt", "--max_new_tokens", "3"),
    "score": ("score", "adapter", "--source", "text.txt", "--target", "refs.txt"),
    "export": ("export", "adapter", "out"),
    "push": ("push", "adapter", "you/de-en"),
}
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "generation_config.json", "tokenizer.json")
BASES = (None, 5, "", "absent", "other", "marian", "run", "adapter", "text.txt", "../../outside", "you/de-en", "a\0b",
         ["model"], "x" * 300)  # fmt: skip
TRAINING = ("resume", "resume", "finish again", "overwrite", "resume with the Trainer")
MODEL = (
    "translate",
    "score",
    "evaluate",
    "attention",
    "ensemble",
    "export",
    "fine-tune",
    "adapter",
    "its tokenizer",
    "finish again",
)
REPORTS = ("card", "card elsewhere", "finish again", "overwrite", "resume")
CHECKPOINTS = ("resume", "resume", "resume with the Trainer", "average", "average one", "average best", "finish again")
READERS = (  # the beginning of a path in the folder, and the actions that read it
    ("results.json", REPORTS), ("README.md", REPORTS), ("training_recipe.yaml", (*REPORTS, "resume")),
    ("log.jsonl", ("curves", "curves", *TRAINING)), ("test_translations.txt", REPORTS),
    ("curves.png", (*REPORTS, "curves")),
    ("pictures", REPORTS), ("checkpoints", CHECKPOINTS), ("best", CHECKPOINTS),
    ("architecture", (*CHECKPOINTS, "finish again")), ("tokenizer/", (*CHECKPOINTS, "finish again")), ("", MODEL),
)  # fmt: skip
IN_PLACE = ("gone", "a folder", "a loop", "to nowhere", "unreadable", "read-only", "leads out", "/dev/null")
OF_FOLDERS = ("gone", "a file", "a loop", "to nowhere", "unreadable", "read-only", "leads out")
STRUCTURED = [name for name in RUN_FILES if name.endswith((".json", ".jsonl", ".yaml"))]
OUT = ("../../outside/precious.png", "/etc/hostname", "mine.txt", "notes/mine.md", "../mine.txt", "..", ".", "",
       "model.safetensors", "checkpoints", "../../outside/precious.txt", "notes", "a\0b", "x" * 300)  # fmt: skip


def inputs(choose: random.Random) -> Iterator[Input]:
    """All inputs of this surface."""
    for action in ACTIONS:
        yield dataclasses.replace(of_run(action, (), "as it is"), refused=False)
        yield of_run(action, (("append", "run/README.md", "mine\n"),), "an edited card", keep=("*mine*", "*README.md"))
        yield of_run(action, (("damage", "run", "leads out"),), "elsewhere", keep=("work*mine*",))
        yield of_run(action, (("damage", "run", choose.choice(OF_FOLDERS)),), "the folder itself")
        yield of_run(action, (("damage", "run", "read-only"),), "read-only")
    for name in RUN_FILES:
        for kind in [*choose.sample(list(DAMAGES), 4), *choose.sample(IN_PLACE, 3)]:
            yield of_run(action_on(choose, name), (("damage", f"run/{name}", kind),), f"{name}: {kind}")
    for name in RUN_FOLDERS:
        for kind in OF_FOLDERS:
            yield of_run(action_on(choose, name), (("damage", f"run/{name}", kind),), f"{name}: {kind}")
    for name in STRUCTURED:
        for number in range(14 if "/" not in name else 8):
            seed, action = choose.randrange(10**6), action_on(choose, name)
            steps = (("odd_value", f"run/{name}", seed), *intact(name))
            yield of_run(action, steps, f"{name}: odd value {number}")
    for path in OUT:
        for action in choose.sample(REPORTS, 2):
            picture = (("set_value", "run/results.json", [path, "pictures/curves.png"], "pictures"),)
            yield of_run(action, picture, f"picture {path[:30]!r}")
        test = path.removesuffix(".png") if ".png" in path else f"{path}/x"
        test = (("rename_key", "run/results.json", test.replace("precious", "x"), "tests", "test"),)
        yield of_run(choose.choice(("resume", "overwrite", "finish again", "card")), test, f"test {path[:30]!r}")
    for value in ([1], 1, "x", {"test": 1}, [[]], None):
        for action in choose.sample(REPORTS, 2):
            yield of_run(action, (("set_value", "run/results.json", value, "tests"),), f"tests are {value!r}")
    for name in ("base_model_tp_plan", "base_model_pp_plan", "attribute_map", "keys_to_ignore_at_inference"):
        for action in choose.sample(MODEL, 2):
            yield of_run(action, (("set_value", "run/config.json", 1, name),), f"{name} is a number")
    last = "run/checkpoints/update-00000004"
    for action in CHECKPOINTS[:3]:
        other = ("copy", "adapter/checkpoints/update-00000002/optimizer.pt", f"{last}/optimizer.pt")
        yield of_run(action, (other, ("new_digests", last)), "the state of another optimizer")
    yield from odd_neighbors(choose)
    yield from odd_adapters(choose)


def odd_adapters(choose: random.Random) -> Iterator[Input]:
    """The folder of an adapter: damaged, for a different base model, or for none."""
    for action, command in ADAPTER_ACTIONS.items():
        refused = action in ("fine-tune", "export", "push")
        yield Input(f"adapter as it is: {action}", command, refused=refused)
    odd: list[tuple[str, tuple]] = []
    for name in ADAPTER_FILES:
        path = f"adapter/{name}"
        odd += [(f"{name}: {kind}", ("damage", path, kind)) for kind in [*DAMAGES, *IN_PLACE]]
    config = "adapter/adapter_config.json"
    odd += [(f"odd value {number}", ("odd_value", config, choose.randrange(10**6))) for number in range(20)]
    odd += [(f"base {base!a:.30}", ("set_value", config, base, "base_model_name_or_path")) for base in BASES]
    odd += [(f"rank {rank!r}", ("set_value", config, rank, "r")) for rank in (0, 3, -1, "x", None, 10**9)]
    odd += [("other layers", ("set_value", config, ["fc1", "absent"], "target_modules"))]
    odd += [("another base", ("copy", "other/model.safetensors", "model/model.safetensors"))]
    for what, step in odd:
        for action in choose.sample(list(ADAPTER_ACTIONS), 2):
            name = f"adapter {what}: {action}".encode("ascii", "backslashreplace").decode()
            yield Input(name, ADAPTER_ACTIONS[action], steps=(step,))


def odd_neighbors(choose: random.Random) -> Iterator[Input]:
    """The user's own files, and leftovers of a different run, under names that a training run uses itself."""
    own = ("checkpoints/mine", "best/mine.txt", "run.part", ".final.part/x", "log.jsonl.part", "README.md.old",
           "results.json.part", "training_recipe.yaml.part", "checkpoints/update-00000004.old/x", "tokenizer/mine.txt",
           "checkpoints/update-00000004.part/x", "checkpoints/update-1/mine", "checkpoints/update-99999999/mine",
           "best/update-99999999/mine", "pictures/mine.png", "hf_vaswani/mine", "architecture/mine.json",
           "test_translations.txt.mine", "my_translations.txt", "checkpoints/update-00000004 (copy)/mine")  # fmt: skip
    for path in own:
        for action in choose.sample(("resume", "overwrite", "finish again", "resume with the Trainer", "card"), 2):
            yield of_run(action, (("write", f"run/{path}", "of the user's own"),), f"with {path}")
    for path in (
        "README.md",
        "curves.png",
        "model.safetensors",
        "config.json",
        "checkpoints/x",
        "log.jsonl",
        "photo.png",
    ):
        steps = (("write", f"out/{path}", "of the user's own"),)
        yield Input(f"folder out has {path}", NEW, steps=steps, keep=("*mine*", "work/out/*"))
        yield Input(f"folder out has {path}, overwrite", (*NEW, "--overwrite", "true"), steps=steps,
                    keep=("*mine*", "work/out/*"))  # fmt: skip


def intact(name: str) -> tuple[tuple, ...]:
    """The step that recomputes a checkpoint's digests, without which a changed file is not read any further."""
    return (("new_digests", "run/" + name.rpartition("/")[0]),) if "update-" in name and "digests" not in name else ()


def action_on(choose: random.Random, name: str) -> str:
    return choose.choice(next(actions for beginning, actions in READERS if name.startswith(beginning)))


def of_run(action: str, steps: tuple, what: str, keep: tuple[str, ...] = ("*mine*",)) -> Input:
    name = f"folder {what}: {action}".encode("ascii", "backslashreplace").decode()
    return Input(name, ACTIONS[action], steps=steps, keep=keep)
