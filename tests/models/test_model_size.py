import pytest

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from hf_vaswani.models import model_files
from hf_vaswani.models.model_files import memory_errors, parameter_count
from hf_vaswani.runtime import machine

from ..conftest import tiny_config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder_layers": 5, "decoder_layers": 1, "norm_position": "pre"},
        {"position_type": "learned", "max_position_embeddings": 30, "output_bias": True, "attention_bias": False},
        {"decoder_vocab_size": 50, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    ],
)
def test_parameters_are_counted_without_building_the_layers(changes):
    config = tiny_config(**changes)
    assert parameter_count(config) == VaswaniForConditionalGeneration(config).num_parameters()


def test_model_too_large_for_memory_is_reported_with_its_size(monkeypatch):
    monkeypatch.setattr(model_files, "free_memory", lambda: 10 * 10**9)
    config = VaswaniConfig(d_model=100_000, encoder_attention_heads=10, decoder_attention_heads=10)
    count = parameter_count(config)
    [error] = memory_errors(count)
    assert count > 6e11
    assert error == f"the model has {count:,} parameters and needs {count * 4 / 1e9:,.0f} GB for its weights, but " \
        "10.0 GB are free"  # fmt: skip
    assert memory_errors(parameter_count(VaswaniConfig())) == []


def test_free_memory_in_a_container_respects_its_limit_and_counts_page_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(machine, "MEMORY_FILE", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemAvailable: 5000 kB\nSwapFree: 0 kB\n")
    assert machine.free_memory() == 5000 * 1024
    (tmp_path / "memory.max").write_text("4000000\n")
    (tmp_path / "memory.current").write_text("3500000\n")
    (tmp_path / "memory.stat").write_text("anon 3000000\ninactive_file 200000\n")
    assert machine.free_memory() == 700_000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.free_memory() == 5000 * 1024
