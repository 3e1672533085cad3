"""How the commands read their options, and their messages about unknown ones."""

import re

import pytest

from hf_vaswani.cli import COMMANDS, _parser, main
from hf_vaswani.configuration.name_hints import OTHER_NAMES
from hf_vaswani.training.recipe.recipe import recipe_keys

PARSERS = _parser().commands


@pytest.fixture
def errors_of(capsys):
    """Runs a command line that must fail, and returns its error lines without the usage."""

    def run(*arguments: str) -> list[str]:
        with pytest.raises(SystemExit) as exit_info:
            main(list(arguments))
        assert exit_info.value.code == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("usage: hf-vaswani")
        return [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]

    return run


def long_options(parser) -> set[str]:
    return {name[2:] for name in parser._option_string_actions if name.startswith("--")}


@pytest.mark.parametrize("name", PARSERS)
def test_every_command_suggests_the_right_spelling_of_an_option(name, errors_of):
    option = max(long_options(PARSERS[name]), key=len)
    misspelled = f"--{option[:-2]}{option[-1]}{option[-2]}"
    if name == "train":  # its recipe comes before all options
        assert errors_of(name, misspelled)[0].startswith("the recipe is missing")
    else:
        [line] = errors_of(name, f"{misspelled}=3")
        assert line == f"{misspelled} is not an option of hf-vaswani {name}; did you mean '--{option}'?"


def test_all_unknown_options_are_reported_together_before_missing_ones(errors_of):
    assert errors_of("translate", "--outptu", "x", "--beam_size=5", "--max-new", "3", "--zzz", "-o", "-xresume") == [
        "--outptu is not an option of hf-vaswani translate; did you mean '--output'?",
        "--beam_size is not an option of hf-vaswani translate; here it is '--num_beams'",
        "--max-new is not an option of hf-vaswani translate; did you mean '--max_new_tokens'?",
        "--zzz is not an option of hf-vaswani translate; see hf-vaswani translate --help",
        "-o is not an option of hf-vaswani translate; see hf-vaswani translate --help",
        "-xresume is not an option of hf-vaswani translate; did you mean '--resume'?",
    ]
    assert errors_of("score", "model", "--src", "a", "--ref", "b") == [
        "--src is not an option of hf-vaswani score; here it is '--source'",
        "--ref is not an option of hf-vaswani score; here it is '--target'",
    ]


def test_argument_that_needs_no_option_is_named_without_one(errors_of):
    assert errors_of("translate", "--model", "m") == [
        "--model is not an option of hf-vaswani translate; give MODEL first, without --model"
    ]
    assert "give MODEL first, without --model" in errors_of("evaluate", "--model=m", "--reference", "r")[0]


def test_options_may_be_written_with_hyphens():
    options = _parser().parse_args(["translate", "m", "--n-best", "3", "--max-new-tokens=7", "--split-sentences"])
    assert (options.n_best, options.max_new_tokens, options.split_sentences) == (3, 7, True)
    options = _parser().parse_args(["attention", "m", "--text", "--a b-c", "--layer", "-1", "--output", "some-file"])
    assert (options.text, options.layer, options.output) == ("--a b-c", -1, "some-file")


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_processes_is_an_alias_of_num_workers(command):
    files = ["--source", "a", "--reference", "b"] if command == "evaluate" else []
    assert _parser().parse_args([command, "m", *files, "--processes", "3"]).num_workers == 3


def test_abbreviated_options_are_rejected(errors_of):
    assert errors_of("score", "m", "--source", "a", "--targ", "b") == [
        "--targ is not an option of hf-vaswani score; did you mean '--target'?"
    ]


def test_unexpected_arguments_are_rejected(errors_of):
    assert errors_of("corpus", "one", "two") == ["unexpected argument 'two'; see hf-vaswani corpus --help"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("trian", "did you mean 'train'?"),
        ("avarage", "did you mean 'average'?"),
        ("generate", "here it is 'translate'"),
        ("server", "here it is 'serve'"),
        ("convert", "here it is 'import' or 'export'"),
        ("x", "see hf-vaswani --help"),
    ],
)
def test_command_that_is_misspelled_or_from_elsewhere_gets_a_suggestion(command, expected, errors_of):
    assert errors_of(command, "--help") == [f"'{command}' is not a command; {expected}"]
    assert errors_of("help", command) == [f"'{command}' is not a command; {expected}"]


def test_missing_command_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main([])
    assert exit_info.value.code == 2
    assert re.findall(r"^    ([a-z-]+) +\w", capsys.readouterr().err, re.MULTILINE) == list(PARSERS)
    assert len(PARSERS) == len(COMMANDS)


@pytest.mark.parametrize("name", PARSERS)
def test_help_explains_every_option_of_a_command(name, capsys):
    for arguments in (["help", name], [name, "--help"]):
        with pytest.raises(SystemExit) as exit_info:
            main(arguments)
        assert exit_info.value.code == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: hf-vaswani {name}")
    for action in PARSERS[name]._actions:
        assert len(action.help) >= 10
        names = action.metavar if isinstance(action.metavar, tuple) else [action.metavar or action.option_strings[-1]]
        assert " ".join(names) in shown
    assert len(PARSERS[name].description) > 30


def test_other_names_map_to_existing_recipe_keys_or_options():
    keys = recipe_keys()
    of_recipe = {f"{section}.{key}" for section in keys for key in keys[section]} | {
        k for s in keys.values() for k in s
    }
    homes = [of_recipe, *map(long_options, PARSERS.values())]
    for here, elsewhere in OTHER_NAMES.items():
        own = {word.partition("=")[0] for word in here.replace(" or ", " and ").split(" and ")}
        assert any(own <= home for home in homes), here
        assert not own & set(elsewhere.split()), here
