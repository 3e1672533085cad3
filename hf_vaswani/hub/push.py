"""Uploads a trained model, and its Space, to the Hub: what people need to use it, and none of the run's state."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from huggingface_hub import SpaceCardData
from transformers.utils import ADAPTER_CONFIG_NAME, ADAPTER_SAFE_WEIGHTS_NAME

from ..backends import BACKENDS
from ..core.modeling_base import remote_code_files
from ..data.tokenizers.tokenizer import has_tokenizer
from ..errors import InputError
from ..files import check_types, collect_errors, read_json, writing
from ..models.model_files import (
    CONFIG_FILE,
    GENERATION_FILE,
    PAGE_FILE,
    check_config_exists,
    is_exported,
    is_page,
    weight_file_errors,
)
from ..records import EVAL_RESULTS
from .markdown import one_line, quoted
from .repository import GRADIO, MODEL, MODEL_PATTERNS, SPACE, check_links, commit_folder, is_hub_id, open_repository

# The key of an adapter's config that names the base model.
BASE_MODEL = "base_model_name_or_path"
# Files that only the run itself needs, to be resumed, evaluated again, or described again.
RUN_FILES = (
    "training_recipe.yaml", "log.jsonl", "trail.json", "*translations*.txt", "README.md.old*", ".*", "*.lock", "*.tmp",
)  # fmt: skip
# Files that people need from subfolders: the figures of a run's card, the two tokenizers of a MarianMT with
# separate vocabularies, and scores for the leaderboards of datasets.
FOLDER_PATTERNS = (
    "pictures/**/*.png", "pictures/**/*.svg", "pictures/**/*.html", "*_tokenizer/*",
    EVAL_RESULTS,
)  # fmt: skip
PAGE_PATTERNS = ("*", "model/**/*", "runtime/*")
REPLACED_IN_PAGES = ("model/*", "runtime/*")  # the same where `*` stands for a `/`, too
# Other files that are uploaded from a model's folder; the rest may be private.
PUSHED = (
    "*.safetensors", "pytorch_model*.bin", "*.index.json", "config.json", "generation_config.json",
    "adapter_config.json", "tokenizer_config.json", "tokenizer.json", "*_tokenizer.json", "special_tokens_map.json",
    "added_tokens.json", "*vocab.json", "*vocabulary.json", "vocab*", "vmap.txt", "merges.txt", "dict.*.txt",
    "bpecodes", "codes", "*.model", "*.spm", "*.jinja", "configuration_*.py", "generation_*.py", "modeling_*.py",
    "pipeline_*.py", "tokenization_*.py", "handler.py", "README.md", "results.json", "*.png", "*.svg",
    "LICENSE*", "NOTICE*", *(file.name for file in remote_code_files()),
)  # fmt: skip
NOT_PUSHED = ("optimizer*", "scheduler*", "random_states*", "training_args.bin", *RUN_FILES)
# Of a Space.
HANDLER_FILE = "handler.py"  # of this package, and of an endpoint
APP_FILE, REQUIREMENTS_FILE, CARD_FILE = "app.py", "requirements.txt", "README.md"
APP = '''\
"""Serves a page to try the model on."""

from hf_vaswani.app import launch

launch({model})
'''
REQUIREMENTS = "hf-vaswani[{extras}]\n"
# The latest version that the page was tested with, used if none is installed.
TRIED_GRADIO = "6.31.0"


def push(
    folder: str | Path,
    repo_id: str,
    private: bool | None = None,
    revision: str | None = None,
    message: str = "",
    space: str | None = None,
    handler: bool = False,
) -> str:
    """Upload the model in a folder, or its web page to a static Space.

    Model or adapter, tokenizer, code, card, figures and results are uploaded. The commit is made once all files are
    there: an upload that is broken off leaves the repository as it was.

    Args:
        repo_id: such as `"you/de-en"`, or `"de-en"` in the namespace of the token's user; created if it is missing.
        private: whether a new repository is private; default: as the account or organization has it.
        revision: branch to upload to, created if it is missing; default: `main`.
        message: commit message; default: `"Upload model"`.
        space: name of a Space where the model can be tried on the page of `hf-vaswani app`; created if it is missing.
        handler: write `handler.py` into the folder, with which an Inference Endpoint serves the model.

    Returns:
        The address of the commit.

    Raises:
        InputError: the folder is incomplete or has links to files elsewhere, the repository's name is invalid, or
            the Hub refuses.
    """
    folder = Path(folder)
    check_folder(folder)
    if handler:
        _write_handler(folder)
    files = list(files_to_push(folder))
    check_links(folder, files)
    kind = SPACE if is_page(folder) else MODEL
    if space is not None and kind == SPACE:
        raise InputError(f"{folder} is a web page, which becomes a Space of its own. Leave out --space.")
    if space is not None and revision is not None:
        raise InputError("A Space serves the model's main branch. Leave out --revision, or --space.")
    name = open_repository(repo_id, private, revision, kind=kind)
    opened = open_repository(space, private, kind=SPACE, sdk=GRADIO) if space is not None else None
    replaced = MODEL_PATTERNS if kind == MODEL else REPLACED_IN_PAGES
    address = commit_folder(name, folder, files, message or "Upload model", revision, replaced, kind)
    if opened:
        push_space(opened, name, needed_extras(folder))
    return address


def _write_handler(folder: Path) -> None:
    """Write the handler of an Inference Endpoint.

    Raises:
        InputError: an endpoint could not load the model with transformers alone.
    """
    if is_page(folder) or is_exported(folder) or not (folder / CONFIG_FILE).exists():
        raise InputError(f"{folder} does not hold a model of transformers, which --handler needs. Leave it out.")
    with writing(folder / HANDLER_FILE):
        shutil.copyfile(Path(__file__).with_name(HANDLER_FILE), folder / HANDLER_FILE)


def check_folder(folder: Path) -> None:
    """Raise an `InputError` unless a folder holds a complete model with its tokenizer."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Specify the folder of a trained model.")
    if is_page(folder):
        page = read_json(folder / PAGE_FILE)
        check_types(folder / PAGE_FILE, page, {"files": dict})
        missing = [name for name in page["files"] if not (folder / name).is_file()]
        if missing:
            raise InputError(f"{folder} has no {' and no '.join(missing)}: the page is incomplete. Export it again.")
        return
    # A PEFT adapter, and no model next to it.
    if (folder / ADAPTER_CONFIG_NAME).exists() and not (folder / CONFIG_FILE).exists():
        check_adapter(folder)
        return
    check_config_exists(folder)
    errors = [] if is_exported(folder) else weight_file_errors(folder)
    for pattern in (CONFIG_FILE, GENERATION_FILE, "tokenizer*.json"):
        for path in folder.glob(pattern):
            collect_errors(errors, partial(read_json, path))
    if not has_tokenizer(folder):
        errors.append(f"{folder} has no tokenizer (tokenizer.json). Copy the tokenizer of its run into the folder.")
    if errors:
        raise InputError.of(errors)


def check_adapter(folder: Path) -> None:
    """Raise an `InputError` unless a folder holds a complete adapter whose base model others can load."""
    base = read_json(folder / ADAPTER_CONFIG_NAME).get(BASE_MODEL)
    errors = []
    if not (folder / ADAPTER_SAFE_WEIGHTS_NAME).exists():
        errors.append(f"{folder} is an adapter without weights ({ADAPTER_SAFE_WEIGHTS_NAME}).")
    if not (isinstance(base, str) and is_hub_id(base)):  # a local base is a path
        errors.append(
            f"{folder / ADAPTER_CONFIG_NAME} names the base model {base!r}, which is not on the Hub. Push that model, "
            f"and write its id into {BASE_MODEL}."
        )
    elif namesake := _folder_of_that_name(folder, base):
        errors.append(
            f"{folder / ADAPTER_CONFIG_NAME} names the base model {base!r}, which may be the folder {namesake} or a "
            "model on the Hub. If it is the one on the Hub, rename the folder. Otherwise push the folder, and write "
            f"its id into {BASE_MODEL}."
        )
    if errors:
        raise InputError.of(errors)


def _folder_of_that_name(folder: Path, base: str) -> Path | None:
    """The local model that a base with a name as on the Hub may be: PEFT writes the path as it was given."""
    places = (place / base for place in (Path.cwd(), *folder.resolve().parents))
    return next((place for place in places if place.exists()), None)


def files_to_push(folder: Path) -> Iterator[str]:
    """The files that people need to use and judge a folder's model, as paths relative to the folder."""
    engines = {pattern for record in BACKENDS.values() for pattern in (*record.files, *record.weights)}
    patterns = PAGE_PATTERNS if is_page(folder) else (*PUSHED, *FOLDER_PATTERNS, *engines)
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        if path.is_file() and not any(fnmatch(path.name, pattern) for pattern in NOT_PUSHED):
            yield path.relative_to(folder).as_posix()


def needed_extras(folder: Path) -> list[str]:
    """The extras of this package that the page for a folder's model needs."""
    needs = {
        "app": True,
        **{name: record.is_folder(folder) for name, record in BACKENDS.items()},
        "peft": (folder / ADAPTER_CONFIG_NAME).exists(),
    }
    return [extra for extra, is_needed in needs.items() if is_needed]


def push_space(name: str, model: str, extras: Sequence[str]) -> None:
    """Upload the page for a model to a Space that is open.

    Args:
        name: the name of the Space, with its namespace.
        model: the model's id on the Hub.
        extras: extras of this package that the Space installs.

    Raises:
        InputError: the Hub refuses or cannot be reached; the Space stays as it was.
    """
    try:
        gradio = version("gradio")
    except PackageNotFoundError:
        gradio = TRIED_GRADIO
    card = SpaceCardData(
        title=one_line(name.rpartition("/")[2]),
        sdk=GRADIO,
        sdk_version=gradio,
        app_file=APP_FILE,
        models=[model],
        tags=["vaswani", "translation"],
    )
    text = f"Translates with [{model}](https://huggingface.co/{model}), on the page of `hf-vaswani app`."
    files = {
        APP_FILE: APP.format(model=quoted(model)),
        REQUIREMENTS_FILE: REQUIREMENTS.format(extras=",".join(extras)),
        CARD_FILE: f"---\n{card}\n---\n\n{text}\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            (Path(folder) / file).write_text(content, encoding="utf-8")
        commit_folder(name, Path(folder), files, "Upload page", kind=SPACE)
