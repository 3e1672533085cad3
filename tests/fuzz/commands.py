"""Command lines: each option of each subcommand, read from the parser, with odd values and odd files."""

import argparse
import random
from collections.abc import Iterator

from hf_vaswani.cli import _parser

from .runner import Input
from .world import PACKED, TEXTS, UNREADABLE

# Commands that succeed; inputs change them in one or two places.
GOOD = {
    "train": ("recipe.yaml", "--output_dir", "out"),
    "translate": ("model", "--input", "text.txt", "--output", "out.txt", "--max_new_tokens", "3"),
    "score": ("model", "--source", "text.txt", "--target", "refs.txt"),
    "calibrate": ("model", "--source", "text.txt", "--reference", "refs.txt", "--samples", "2"),
    "evaluate": ("model", "--source", "text.txt", "--reference", "refs.txt", "--resamples", "2"),
    "attention": ("model", "--text", "a b", "--output", "out.png"),
    "average": ("run", "--output", "out"),
    "card": ("run",),
    "clean": ("out", "--source", "text.txt", "--target", "refs.txt", "--num_workers", "1"),
    "corpus": ("out",),
    "curves": ("run",),
    "tokenizer": ("out", "--source", "text.txt", "--target", "refs.txt", "--vocab_size", "30"),
    "import": ("marian", "out"),
    "recipes": ("quickstart",),
    "export": ("model", "out"),
    "push": ("model", "you/de-en"),
    "pull": ("you/de-en", "out"),
    "beam-tree": ("model", "--text", "a b", "--output", "out.svg"),
    "verify": ("run", "--steps", "1", "--from", "none"),
}
MODEL = {"model", "models", "ensemble", "sources", "training", "trainings"}
READ = {"input", "prefix", "source", "target", "hypotheses", "reference", "file", "recipe"}
WRITTEN_FILE = {("translate", "output"), ("evaluate", "output"), ("attention", "output"), ("card", "output"),
                ("curves", "output"), ("beam-tree", "output")}  # fmt: skip
WRITTEN_FOLDER = {("average", "output"), ("tokenizer", "output"), ("import", "output"), ("export", "output"),
                  ("corpus", "folder"), ("pull", "folder"), ("clean", "output"),
                  ("clean", "save_cleaner")}  # fmt: skip
READ_FOLDER = {("import", "source"), ("push", "folder"), ("clean", "cleaner")}
SECOND = {("import", "output"), ("export", "output"), ("push", "repository"), ("pull", "folder")}
NOT_TEXT_FILES = {("import", "source"), ("attention", "target"), ("train", "recipe")}

NUMBERS = ("0", "-1", "1e300", "1000000000000000000", "nan", "inf", "", "abc", "٣", "1_0", "0x10", "1.5", "²", " 2 ")
NO_NUMBERS = {"nan", "inf", "", "abc", "0x10", "²"}
WORDS = (
    "",
    "abc",
    "null",
    "x" * 300,
    "\udcff",
    "a\nb",
    "--",
    "-",
    "٣",
    "[1",
    "{}",
    "../..",
    "%s",
    "de_DE",
    "🙂",
    "a b " * 8000,
)
PATHS = ("absent", "", ".", "..", "mine", "x" * 300, "absent/x", "text.txt/x", "loop", "nowhere", "locked",
         "unreadable", "\udcff", "a\nb", "~", "-", "/dev/null", "/proc/self/mem", "https://example.com/a", "a/b/c",
         "*")  # fmt: skip
MODELS = (*PATHS, "owner/name", "text.txt", "fairseq.pt", "run/checkpoints", "run/checkpoints/update-00000004",
          "run/best", "run/notes", "run/config.json", "marian", "other", "run/architecture", "a model",
          "linked")  # fmt: skip
# Existing files, which are replaced only on request, and places where nothing can be written.
TARGETS = ("mine.txt", "mine", "text.txt", "hard.txt", "link.txt", "to-mine", "to-nothing", "loop", "locked/x",
           "absent/x", "mine.txt/x", "read-only", "x" * 300, "", ".", "..", "/dev/full", "../outside/precious.txt",
           "run/results.json", "a\nb", "\udcff", "model", "run", "--", "out.gz", "./mine/../out")  # fmt: skip
SUFFIXED = (("attention", "output"), ("curves", "output"), ("card", "output"), ("beam-tree", "output"))
PLACES = {  # what must exist for such a value
    "loop": ("link", "loop", "loop"),
    "nowhere": ("link", "nowhere", "nothing/here"),
    "locked": ("folder", "locked", 0o000),
    "locked/x": ("folder", "locked", 0o555),
    "unreadable": ("write", "unreadable", "a\n"),
    "hard.txt": ("hard_link", "hard.txt", "text.txt"),
    "link.txt": ("link", "link.txt", "text.txt"),
    "to-mine": ("link", "to-mine", "mine.txt"),
    "to-nothing": ("link", "to-nothing", "not-yet"),
    "read-only": ("write", "read-only", "a\n"),
    "linked": ("link", "linked", "model"),
    "a model": ("copy", "model", "a model"),
}
MODES = {"unreadable": 0o000, "read-only": 0o444}


def inputs(choose: random.Random) -> Iterator[Input]:
    """All inputs of this surface."""
    for command, actions in parsers().items():
        for action in actions:
            values = list(odd_values(command, action))
            few = choose.sample(values, min(len(values), 8))
            yield from sorted(few, key=lambda case: case.name)
        yield from odd_lines(choose, command, actions)
    yield from odd_pairs(choose, 60)
    yield from odd_encodings()


def parsers() -> dict[str, list[argparse.Action]]:
    """The arguments of each subcommand."""
    commands = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {
        name: [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
        for name, parser in commands.choices.items()
        # These start other commands, and a server: `tests/app/test_page.py`.
        if name not in ("app", "serve")
    }


def odd_encodings() -> Iterator[Input]:
    """Documents that declare an encoding that Python knows and that is not one of text, or not that of the file."""
    for name in ("hex", "zlib", "rot13", "undefined", "idna", "utf-16", "nothing"):
        for kind, content in (
            ("html", '<meta charset="{}"><p>a b</p>'),
            ("xml", '<?xml version="1.0" encoding="{}"?>'),
        ):
            command = ("translate", "model", "--input", f"odd.{kind}", "--output", f"out.{kind}")
            yield case(f"{kind} in {name}", command, (("write", f"odd.{kind}", content.format(name)),), refused=True)


def odd_values(command: str, action: argparse.Action) -> Iterator[Input]:
    """A good command with odd values of one argument."""
    option, name, key = max(action.option_strings, default=""), action.dest, (command, action.dest)
    if key in (("train", "options"), ("verify", "options")):
        return  # keys of the recipe: `recipes.py`
    if action.nargs == 0:
        yield case(f"{option}=x", (command, *GOOD[command], f"{option}=x"), refused=True)
        yield case(f"{option}", (command, *GOOD[command], option))
        yield case(f"{option} twice", (command, *GOOD[command], option, option))
    elif key in WRITTEN_FILE or key in WRITTEN_FOLDER:
        yield from odd_targets(command, action, option)
    elif name in MODEL or key in READ_FOLDER:
        for value in MODELS:
            yield case(f"{option or name} {value[:20]!r}", changed(command, option, value, name), places(value))
    elif name in READ and key not in NOT_TEXT_FILES:
        yield from odd_texts(command, action, option)
    elif key in NOT_TEXT_FILES or name in ("vocabularies", "dataset"):
        for value in PATHS:
            yield case(f"{option or name} {value[:20]!r}", changed(command, option, value, name), places(value))
    elif action.choices is not None and not isinstance(next(iter(action.choices)), int):
        for value in ("", "abc", "0", "TEXT", next(iter(action.choices)) + "x"):
            yield case(f"{option} {value!r}", changed(command, option, value), refused=True)
        for value in action.choices:
            yield case(f"{option} {value!r}", changed(command, option, value))
    elif action.type is not None or name in ("vocab_size", "target_vocab_size", "min_frequency"):
        for value in NUMBERS:
            refused = True if value in NO_NUMBERS else None
            yield case(f"{option} {value!r}", changed(command, option, value), refused=refused)
    else:
        for value in WORDS:
            yield case(f"{option or name} {value[:20]!r}", changed(command, option, value, name))


def odd_texts(command: str, action: argparse.Action, option: str) -> Iterator[Input]:
    """Odd files in place of a text file."""
    suffix = ".tsv" if action.dest == "file" else ".txt"
    for value in PATHS:
        yield case(f"{option} {value[:20]!r}", changed(command, option, value), places(value))
    for kind in TEXTS:
        file = f"odd{suffix}"
        yield case(f"{option} of {kind}", changed(command, option, file), (("text", file, kind),))
    for kind in PACKED:
        file = kind.replace(" ", "_") if suffix == ".txt" else kind.replace(" ", "_").replace(".", f"{suffix}.")
        steps = (("text", file, kind),)
        refused = True if kind in UNREADABLE and command not in ("translate", "score") else None
        yield case(f"{option} of {kind}", changed(command, option, file), steps, refused=refused)
    if command in ("translate",) and option == "--input":
        for kind, content in TEXTS.items():
            argv = (command, "model", "--max_new_tokens", "3")
            yield case(f"standard input of {kind}", argv, stdin=content)


def odd_targets(command: str, action: argparse.Action, option: str) -> Iterator[Input]:
    """Outputs that exist already or cannot be written, with and without --overwrite."""
    suffix = {"attention": ".png", "curves": ".png", "card": ".md", "beam-tree": ".svg"}.get(command, "")
    for value in TARGETS:
        for overwrite in ((), ("--overwrite",)) if (command, action.dest) in WRITTEN_FILE else ((),):
            argv = changed(command, option, value, action.dest)
            yield case(f"{option} {value[:20]!r} {' '.join(overwrite)}", (*argv, *overwrite), places(value))
            if suffix and not value.endswith(("/", ".", "..", "--")):
                file, steps = f"{value}{suffix}", places(value)
                if value.startswith("to-") or value in ("loop", "link.txt"):
                    steps = (*steps, ("link", file, value))
                elif value in ("mine.txt", "text.txt", "read-only"):
                    steps = (*steps, ("copy", value, file))
                argv = changed(command, option, file, action.dest)
                yield case(f"{option} {file[-20:]!r} {' '.join(overwrite)}", (*argv, *overwrite), steps)


def odd_lines(choose: random.Random, command: str, actions: list[argparse.Action]) -> Iterator[Input]:
    """Command lines that are invalid as such: unknown options, missing ones, ambiguous ones."""
    good = GOOD[command]
    options = [max(action.option_strings) for action in actions if takes_value(action)]
    option = choose.choice(options) if options else "--output"
    yield case("as it is", (command, *good), refused=command in ("push", "pull"))  # without a network
    yield case("nothing", (command,), refused=None if command == "recipes" else True)
    yield case("--nonsense", (command, *good, "--nonsense", "1"), refused=True)
    yield case("misspelt", (command, *good, option[:-2] + option[-1] + option[-2] + "x", "1"), refused=True)
    yield case("hyphens", (command, *good, option.replace("_", "-") + "-x", "1"), refused=True)
    yield case("no value", (command, *good, option), refused=True)
    yield case("empty word", (command, *good, ""))
    yield case("one more", (command, *good, "mine.txt"))
    yield case("--", (command, "--", *good))
    yield case("-x", (command, *good, "-x"), refused=True)
    yield case("not UTF-8", (command, *good, "\udcff\udcfe"))
    yield case("twice", (command, *good, *good))
    for place in range(len(good)):
        yield case(f"without {good[place]}", (command, *good[:place], *good[place + 1 :]))
    if command != "train":
        yield case("--help", (command, "--help"), refused=False)


def odd_pairs(choose: random.Random, number: int) -> Iterator[Input]:
    """Two odd values at once, the second of an option that takes one."""
    commands = parsers()
    for place in range(number):
        command = choose.choice([name for name in commands if any(map(takes_value, commands[name]))])
        first, second = choose.choice(commands[command]), choose.choice([*filter(takes_value, commands[command])])
        one, other = (choose.choice(list(odd_values(command, action)) or [None]) for action in (first, second))
        if one is None or other is None:
            continue
        option = max(second.option_strings)
        odd = other.argv[other.argv.index(option, 1) :][:2] if option in other.argv else ()
        steps = tuple(dict.fromkeys(one.steps + other.steps))
        yield case(f"{place}: {one.name} and {other.name}", one.argv + odd, steps)


def takes_value(action: argparse.Action) -> bool:
    return bool(action.option_strings) and action.nargs != 0


def case(name: str, argv: tuple[str, ...], steps: tuple = (), **what) -> Input:
    shown = name.encode("ascii", "backslashreplace").decode().strip()
    return Input(f"{argv[0]} {shown}", argv, steps=steps, **what)


def changed(command: str, option: str, value: str, name: str = "") -> tuple[str, ...]:
    """A good command with a different value of an option, or of the positional argument of this name."""
    argv = [command, *GOOD[command]]
    if not option:
        argv[2 if (command, name) in SECOND else 1] = value
    elif option in argv:
        argv[argv.index(option) + 1] = value
    else:
        argv += [option, value]
    return tuple(argv)


def places(value: str) -> tuple[tuple, ...]:
    steps = (PLACES[value],) if value in PLACES else ()
    return (*steps, ("chmod", value, MODES[value])) if value in MODES else steps
