"""What the command imports at startup: torch and transformers take seconds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
COMMANDS = ("train", "tokenizer", "translate", "score", "evaluate", "import", "export", "curves", "attention", "card",
            "average", "corpus", "push", "recipes", "app")  # fmt: skip


def imported_by(*arguments: str) -> set[str]:
    """The packages that a run of the command has imported by its end."""
    command = [sys.executable, "-X", "importtime", "-m", "hf_vaswani", *arguments]
    process = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert process.stdout
    packages = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in process.stderr.splitlines() if "|" in line
    }
    assert "hf_vaswani" in packages
    return packages


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["recipes"], ["recipes", "quickstart"], ["train", "--help"]], ids=" ".join
)
def test_command_that_needs_no_model_does_not_import_torch(arguments):
    assert not imported_by(*arguments) & {"torch", "transformers", "datasets", "numpy"}


AT_FIRST_STEP = """
import os, sys
import hf_vaswani
hf_vaswani.load()
from torch.optim.optimizer import register_optimizer_step_pre_hook
from hf_vaswani.cli import main

def count(*arguments):
    files = {m.__file__ for n, m in [*sys.modules.items()] if n.partition(".")[0] == "hf_vaswani" and m.__file__}
    print(len(files), sum(len(open(file, encoding="utf-8").readlines()) for file in files), file=sys.stderr)
    os._exit(0)

register_optimizer_step_pre_hook(count)
main()
"""


def test_training_loads_only_a_part_of_the_package(tmp_path):
    sizes = [f"--{name}=8" for name in ("d_model", "encoder_ffn_dim", "decoder_ffn_dim")]
    sizes += ["--encoder_layers=1", "--decoder_layers=1", "--vocab_size=300", "--max_steps=1", "--mixed_precision=no"]
    options = ["train", "quickstart", f"--output_dir={tmp_path}", "--augmentation.placeholders=0", *sizes]
    command = [sys.executable, "-c", AT_FIRST_STEP, *options]
    process = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    files, lines = map(int, process.stderr.splitlines()[-1].split())
    assert files <= 145 and lines <= 23_000


def test_help_of_all_commands_needs_neither_torch_nor_transformers():
    code = (
        "import sys; sys.argv[0] = '/usr/bin/hf-vaswani'\n"
        "from hf_vaswani.cli import _parser\n"
        f"parser = _parser()\nfor name in {COMMANDS}: parser.commands[name].format_help()\n"
        "print(*({'torch', 'transformers', 'datasets'} & sys.modules.keys()))"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == ""


def test_package_has_its_public_names_in_the_commands_process():
    code = (
        "import sys; sys.argv[0] = '/usr/bin/hf-vaswani'\n"
        "import hf_vaswani\n"
        "assert 'torch' not in sys.modules\n"
        "print([getattr(hf_vaswani, name).__name__ for name in hf_vaswani.__all__] == hf_vaswani.__all__)\n"
        "hf_vaswani.load()\n"
        "from transformers import AutoConfig\n"
        "print(AutoConfig.for_model('vaswani').model_type)"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["True", "vaswani"]


def test_importing_the_package_imports_nothing_more_of_transformers_or_torch():
    code = (
        "import sys, torch, transformers\n"
        "before = set(sys.modules)\n"
        "import hf_vaswani\n"
        "print(*(name for name in set(sys.modules) - before if name.startswith(('transformers', 'torch'))))"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == ""


# Each takes seconds to import, so most are slow tests.
FIRST = ["import transformers.pipelines; import hf_vaswani"]
ALSO_FIRST = [
    "import hf_vaswani; import transformers",
    "import transformers; import hf_vaswani",
    "import transformers.modeling_utils; import hf_vaswani",
    "import hf_vaswani; import transformers.modeling_utils",
    "import hf_vaswani.translator.pipeline",
    "import hf_vaswani.core.tokenization_vaswani",
    "import hf_vaswani.core.configuration_vaswani",
    "import hf_vaswani.core.modeling_vaswani",
    "from hf_vaswani import *",
]


@pytest.mark.parametrize("first", [*FIRST, *(pytest.param(code, marks=pytest.mark.slow) for code in ALSO_FIRST)])
def test_everything_is_registered_whatever_is_imported_first(first):
    code = (
        f"{first}\n"
        "from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, pipeline, pipelines\n"
        "config = AutoConfig.for_model('vaswani', d_model=8, vocab_size=9)\n"
        "print(*(type(auto.from_config(config)).__name__ for auto in (AutoModel, AutoModelForSeq2SeqLM)))\n"
        "from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING\n"
        "print(TOKENIZER_MAPPING[type(config)].__name__ if not isinstance(TOKENIZER_MAPPING[type(config)], tuple)"
        " else TOKENIZER_MAPPING[type(config)][1].__name__)\n"
        "print(pipelines.check_task('translation')[1]['impl'].__name__)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == [
        "VaswaniModel", "VaswaniForConditionalGeneration", "VaswaniTokenizer", "TranslationPipeline",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, so that each import starts from the same state")
def test_every_core_module_can_be_imported_first():
    code = (
        "import importlib, os, pkgutil, sys\n"
        "import transformers.modeling_utils\n"
        "import hf_vaswani\n"
        "for module in pkgutil.iter_modules(['hf_vaswani/core'], 'hf_vaswani.core.'):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        importlib.import_module(module.name)\n"
        "        os._exit(0)\n"
        "    if os.waitpid(child, 0)[1]:\n"
        "        sys.exit(module.name)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
