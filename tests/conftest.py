"""Fixtures shared by many tests: tiny models, a tiny tokenizer, parallel files. Nothing here touches the network."""

import gc
import os
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS

from .hub.fake_hub import FakeHub

# A shell starts what runs in the background with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tiny tensors gain nothing from threads, and lose a lot when the cores are busy.
torch.set_num_threads(1)

TINY = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 32,
}


def slow_but(names, *fast):
    """Names of parameters, of which all but some run only with the slow tests."""
    # A tuple stands for several parameters.
    values = [(name if isinstance(name, tuple) else (name,), name in fast) for name in names]
    return [pytest.param(*value, marks=[] if is_fast else pytest.mark.slow) for value, is_fast in values]


def pytest_collection_finish():
    # Each run ends with a garbage collection, which need not look at all modules again.
    gc.collect()
    gc.freeze()


def tiny_config(**changes) -> VaswaniConfig:
    return VaswaniConfig(**{**TINY, **changes})


def tiny_model(attn_implementation: str = "sdpa", **changes) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration._from_config(
        tiny_config(**changes), attn_implementation=attn_implementation
    )
    return model.eval()


def word_tokenizer(words: list[str]) -> Tokenizer:
    """One token per word: ids 4, 5, … after the special tokens, and `</s>` at the end."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS.values(), *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A separate cache of prepared text for the tests."""
    os.environ["HF_VASWANI_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def no_converted_models():
    """No model is computed by CTranslate2 because an earlier test has converted it."""
    yield
    shutil.rmtree(Path(os.environ["HF_VASWANI_CACHE"]) / "ctranslate2", ignore_errors=True)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer([f"w{i}" for i in range(36)]),
        model_input_names=["input_ids", "attention_mask"],
        **SPECIAL_TOKENS,
    )


def save_tiny_model(folder: Path) -> Path:
    """Save a tiny model and its tokenizer in a folder."""
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return tiny_tokenizer()


@pytest.fixture
def saved_model(tmp_path):
    """A folder with a tiny model and its tokenizer."""
    return save_tiny_model(tmp_path / "saved")


@pytest.fixture
def backward() -> VaswaniForConditionalGeneration:
    """A model with other weights than `tiny_model`, to stand for one of the other direction."""
    model = tiny_model()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture
def saved_backward(tmp_path, tokenizer, backward):
    """A folder with `backward` and its tokenizer."""
    backward.save_pretrained(tmp_path / "backward")
    tokenizer.save_pretrained(tmp_path / "backward")
    return tmp_path / "backward"


@pytest.fixture
def hub():
    """A small Hub over HTTP."""
    with FakeHub() as hub:
        yield hub


@pytest.fixture
def hub_here(hub, monkeypatch, tmp_path):
    """The same Hub, also used by huggingface_hub in this process, with a write token."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub_cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_TOKEN", "writer")
    close_session()
    yield hub
    close_session()


@pytest.fixture
def write_lines(tmp_path):
    """Writes lines to a file and returns its path."""

    def write(name: str, lines: list[str]) -> str:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write


@contextmanager
def largest_file(size: int):
    """Within the block, no file may grow beyond `size` bytes, as on a disk that is nearly full."""
    resource = pytest.importorskip("resource", reason="the system has no such limit")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
