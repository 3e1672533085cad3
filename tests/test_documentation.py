"""README and docs: Python runs, commands and recipes use existing options and keys, and links point to files.

The Python blocks of a page run one after another, as a reader would run them, in a folder with tiny models and a few
sentences, named as on the pages. Below `<!-- not run: why -->` a block is only compiled.
"""

import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from hf_vaswani.cli import _parser, main
from hf_vaswani.training.recipe.recipe import load_recipe

from .conftest import tiny_model
from .scripts.conftest import load_script

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n+)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"(?:\]\(|src=\")(?!https?:|#)([^)#\"\s]+)[^)\"]*[)\"]")
END_OF_COMMAND = {"|", ">", "<", "&&", ";"}
SCRIPTS = {"scripts/train.py": [], "scripts/train_trainer.py": ["--trainer"]}
SWEEP = load_script("sweep")
PARSERS = {
    "scripts/sweep.py": SWEEP,
    "scripts/translate_shards.py": load_script("translate_shards"),
    "scripts/prepare_on_ray.py": load_script("prepare_on_ray"),
    "scripts/clean_on_ray.py": load_script("clean_on_ray"),
}


def blocks(page: Path, language: str) -> list[re.Match]:
    return [block for block in BLOCK.finditer(page.read_text(encoding="utf-8")) if block["language"] == language]


def pages_with(language: str):
    pages = [page for page in PAGES if blocks(page, language)]
    return pytest.mark.parametrize("page", pages, ids=[page.relative_to(ROOT).as_posix() for page in pages])


def command_lines(code: str) -> list[list[str]]:
    """The arguments of each `hf-vaswani` command or script in a block of shell code."""
    found = []
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for start, word in enumerate(words):
            rest = words[start + 1 :]
            end = next((i for i, text in enumerate(rest) if text in END_OF_COMMAND), len(rest))
            if word == "hf-vaswani" or words[start - 1 : start + 1] == ["-m", "hf_vaswani"]:
                found.append(rest[:end])
            elif word in PARSERS:
                found.append([word, *rest[:end]])
            elif word in SCRIPTS:
                found.append(["train", *rest[:end], *SCRIPTS[word]])
    return found


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A folder with tiny models and short files, named as on the pages."""
    folder = tmp_path_factory.mktemp("world")
    assert main(["corpus", str(folder / "text")]) == 0
    for path in list((folder / "text").iterdir()):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:40]
        path.write_text("".join(lines), encoding="utf-8")
        shutil.copy(path, folder / path.name)
    sides = ["--source", str(folder / "train.de"), "--target", str(folder / "train.en")]
    tokenizer = folder / "outputs" / "tokenizer"
    assert main(["tokenizer", str(tokenizer), *sides, "--vocab_size", "150"]) == 0
    model = tiny_model(vocab_size=150, source_language="de", target_language="en")
    model.generation_config.max_new_tokens = 8  # untrained, it would go on to the length limit
    for name in ("quickstart", "my_model", "second"):
        shutil.copytree(tokenizer, folder / "outputs" / name)
        model.save_pretrained(folder / "outputs" / name)
    return folder


def is_sweep(text: str) -> bool:
    content = yaml.safe_load(text)
    return isinstance(content, dict) and isinstance(content.get("recipe"), str)


def check_sweep(path: Path, options: list[str]) -> None:
    sweep = SWEEP.read_sweep(path, options)
    sweep.check(sweep.make_rows())
    SWEEP.make_space(sweep)


@pages_with("python")
def test_python_blocks_run(page, workspace, monkeypatch):
    monkeypatch.chdir(workspace)
    namespace = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        code = compile(block["code"], str(page), "exec")
        if not block["reason"]:
            exec(code, namespace)


@pages_with("bash")
def test_commands_use_existing_options(page, capsys):
    parser = _parser()
    for block in blocks(page, "bash"):
        for arguments in command_lines(block["code"]):
            try:
                if arguments[0] in PARSERS:
                    options = PARSERS[arguments[0]].make_parser().parse_args(arguments[1:])
                    if arguments[0] == "scripts/sweep.py" and (ROOT / options.sweep).is_file():
                        check_sweep(ROOT / options.sweep, options.options)
                    continue
                options = parser.parse_args(arguments)
            except SystemExit as stop:
                assert stop.code == 0, f"{shlex.join(arguments)}\n{capsys.readouterr().err}"
                continue  # --help
            if options.command == "train":
                recipe = options.recipe if Path(options.recipe).name != "my.yaml" else "quickstart"
                load_recipe(recipe, [text for text in options.options if text != "--trainer"])


@pages_with("yaml")
def test_recipes_use_existing_keys(page, tmp_path):
    for block in blocks(page, "yaml"):
        path = tmp_path / "recipe.yaml"
        path.write_text(block["code"], encoding="utf-8")
        if is_sweep(block["code"]):
            check_sweep(path, [])
        else:
            load_recipe(path)


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_point_to_files(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1050


def test_content_that_pages_take_from_the_code_exists(monkeypatch):
    specification = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    monkeypatch.setenv("COLUMNS", "100")
    for page in PAGES:
        hooks.on_page_markdown(page.read_text(encoding="utf-8"))
    assert "| `max_steps` ↻ |" in hooks.recipe_keys()
    assert "--num_beams" in hooks.commands()
    link = "[`preset`](../../hf_vaswani/presets.py)"
    assert "\ndef preset(" in hooks.on_page_markdown(link)
    assert hooks.on_page_markdown(f"- {link}").startswith("::: hf_vaswani.presets.preset\n")
    assert hooks.on_page_markdown(f"See {link}") == f"See {link}"
    with pytest.raises(LookupError, match=r"hf_vaswani/presets.py defines no_such_name 0 times"):
        hooks.on_page_markdown(link.replace("`preset`", "`no_such_name`"))
