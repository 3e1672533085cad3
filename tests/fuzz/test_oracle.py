"""The harness works: harm planted in a command or a call is found, and correct behavior is not reported."""

import pytest

from .runner import Input

CORPUS = ("corpus", "out")
# What the subcommand `corpus` does instead of its work.
INSTEAD = "import hf_vaswani.commands.corpus as command\ndef run(options):\n    {}\ncommand.run = run"
WORKS = "import os; os.mkdir('out'); open('out/train.de', 'w').write('a')"
REFUSES = "from hf_vaswani.errors import InputError; {}; raise InputError('out cannot be written')"


def planted(body: str, **what) -> Input:
    return Input(body, CORPUS, plant=INSTEAD.format(body), **what)


def call(code: str, *words: str) -> Input:
    return Input(code, code=code, words=words)


@pytest.fixture(scope="module")
def kinds(run_all):
    """The kinds of problems found in each of several inputs."""
    return lambda *cases: [sorted({kind for kind, _ in outcome.problems}) for outcome in run_all(list(cases))]


@pytest.mark.slow
def test_success_and_clear_rejections_are_not_reported(kinds):
    assert kinds(
        planted(WORKS), planted(REFUSES.format("pass")), Input("help", ("corpus", "--help"), refused=False),
        Input("usage", ("corpus", "--nonsense"), refused=True), call("translator(['a'])"),
        call("translator(1)", "str"),
        Input("new", ("train", "recipe.yaml", "--output_dir", "out")),
        Input("again", ("train", "recipe.yaml", "--output_dir", "run", "--overwrite", "true")),
        Input("replaced", ("curves", "run", "--output", "mine/photo.png", "--overwrite")),
    ) == [[]] * 9  # fmt: skip


def test_lost_and_changed_files_are_reported(kinds):
    lost = "import os, shutil; {}"
    assert (
        kinds(
            planted(lost.format("os.remove('../outside/precious.txt')")),
            planted(lost.format("os.remove('mine.txt')")),
            planted(lost.format("shutil.rmtree('run/notes')")),
            planted(lost.format("open('text.txt', 'a').write('x')")),
            planted(lost.format("os.chmod('text.txt', 0o600)")),
            planted(lost.format("os.rename('recipe.yaml', 'recipe.yml')")),
            planted(lost.format("os.remove('text.txt'); os.symlink('refs.txt', 'text.txt')")),
            planted(REFUSES.format("import os; os.remove('run/README.md')")),
            call("Path('../outside/precious.png').unlink()"),
        )
        == [["harm"]] * 5 + [["harm", "litter"]] + [["harm"]] * 3
    )


def test_output_file_can_be_replaced_only_with_overwrite(kinds):
    instead = INSTEAD.replace("corpus", "curves").format("open('notes.png', 'w').write('x')")
    argv = ("curves", "run", "--output", "notes.png")
    cases = Input("unasked", argv, plant=instead), Input("asked", (*argv, "--overwrite"), plant=instead)
    assert kinds(*cases) == [["harm"], []]


def test_input_file_is_not_replaced_through_a_hard_link(kinds):
    instead = INSTEAD.replace("corpus", "translate").format("open('hard.txt', 'w').write('x')")
    argv = ("translate", "model", "--input", "text.txt", "--output", "hard.txt", "--overwrite")
    case = Input("hard link", argv, plant=instead, steps=(("hard_link", "hard.txt", "text.txt"),))
    assert kinds(case) == [["harm"]]


def test_renamed_user_file_counts_as_kept_but_a_removed_one_does_not(kinds):
    steps, argv = (("append", "run/README.md", "mine"),), ("card", "run")
    renames = INSTEAD.replace("corpus", "card").format("import os; os.rename('run/README.md', 'run/README.md.old')")
    removes = INSTEAD.replace("corpus", "card").format("import os; os.remove('run/README.md')")
    keep = ("*README.md",)
    cases = [Input(plant, argv, steps=steps, plant=plant, keep=keep) for plant in (renames, removes)]
    assert kinds(*cases) == [[], ["harm"]]


def test_files_left_behind_are_reported(kinds):
    assert kinds(
        planted(REFUSES.format("import os; os.mkdir('out')")),
        planted("open('stray', 'w')"),
        call("Path('x').touch()"),
    ) == [["litter"]] * 3  # fmt: skip


def test_tracebacks_and_crashes_are_reported(kinds):
    assert kinds(
        planted("{}['x']"),
        planted("raise OSError('x')"),
        planted("import os; os.abort()"),
        planted("import sys; sys.exit(3)"),
        planted("import sys; sys.exit(2)"),
        planted("import time; time.sleep(99)", seconds=1),
        planted("bytearray(1 << 40)"),
        planted("import sys; print(\"thread 'x' panicked at y\", file=sys.stderr)"),
        planted("raise __import__('hf_vaswani.errors').errors.InputError(\"'int' object has no attribute 'x'\")"),
    ) == [
        ["traceback"], ["traceback"], ["SIGABRT"], ["status"], ["no message"], ["hang"], [], ["panic"],
        ["unclear"],
    ]  # fmt: skip


def test_wrongly_accepted_and_rejected_inputs_are_reported(kinds):
    assert kinds(planted(WORKS, refused=True), planted(REFUSES.format("pass"), refused=False)) == [
        ["accepted"],
        ["refused"],
    ]


def test_errors_of_calls_must_be_of_the_right_kind_and_name_the_argument(kinds):
    assert kinds(
        call("Ensemble([])", "ensemble"),
        call("Ensemble([])", "nothing of that name"),
        call("vaswani.TranslationPipeline.collate(translator, [])"),
        call("no_such_name"),
        call("{}['x']"),
    ) == [[], ["unnamed"], ["traceback"], ["broken input"], ["broken input"]]


def test_commands_have_no_root_privileges_and_no_network(kinds):
    steps = (("folder", "locked", 0o555), ("chmod", "text.txt", 0))
    limits = "assert not os.access('text.txt', os.R_OK) and not os.access('locked', os.W_OK)"
    network = "socket.create_connection(('127.0.0.1', 9))\n    except OSError as e: assert 'no network' in str(e)"
    assert kinds(
        planted(f"{WORKS}\n    {limits}", steps=steps), planted(f"{WORKS}; import socket\n    try: {network}")
    ) == [[], []]  # fmt: skip
