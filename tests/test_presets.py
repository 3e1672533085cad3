import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration, preset
from hf_vaswani.errors import InputError
from hf_vaswani.presets import PRESETS

from .conftest import slow_but

# Table 3 of the paper, in millions; the base model's value where a cell is empty.
TABLE_3 = {
    "base": 65,
    "table3_a_1_head": 65,
    "table3_a_4_heads": 65,
    "table3_a_16_heads": 65,
    "table3_a_32_heads": 65,
    "table3_b_dk_16": 58,
    "table3_b_dk_32": 60,
    "table3_c_2_layers": 36,
    "table3_c_4_layers": 50,
    "table3_c_8_layers": 80,
    "table3_c_dmodel_256": 28,
    "table3_c_dmodel_1024": 168,
    "table3_c_dff_1024": 53,
    "table3_c_dff_4096": 90,
    "table3_d_dropout_0.0": 65,
    "table3_d_dropout_0.2": 65,
    "table3_d_smoothing_0.0": 65,
    "table3_d_smoothing_0.2": 65,
    "table3_e_learned": 65,
    "big": 213,
}
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "vocab_size": 50, "d_model": 32}


def millions(config: VaswaniConfig) -> float:
    with torch.device("meta"):
        return VaswaniForConditionalGeneration(config).num_parameters() / 1e6


@pytest.mark.parametrize("name", TABLE_3)
def test_parameter_count_is_within_5_percent_of_table_3(name):
    assert millions(preset(name)) == pytest.approx(TABLE_3[name], rel=0.05)


@pytest.mark.parametrize("name", [name for name in TABLE_3 if name.startswith("table3_")])
def test_rows_with_41_000_tokens_have_the_parameter_count_of_table_3(name):
    # Row E adds the two tables of learned positions, which the paper's count does not show.
    tables = 1.05 if name == "table3_e_learned" else 0
    assert round(millions(preset(name)) - tables) == TABLE_3[name]


def test_system_c_has_72_5_million_parameters():
    assert millions(preset("system_c")) == pytest.approx(72.5, abs=0.05)


def test_opennmt_has_the_biases_of_its_versions_1_and_2():
    config = preset("opennmt")
    assert (config.attention_bias, config.ffn_bias, config.output_bias) == (True, True, True)


def test_presets_of_table_3_vary_what_their_rows_say():
    assert preset("table3_a_1_head").encoder_attention_heads == preset("table3_a_1_head").decoder_attention_heads == 1
    assert (preset("table3_b_dk_16").d_k, preset("table3_b_dk_16").d_v) == (16, None)
    assert preset("table3_c_2_layers").decoder_layers == 2
    assert preset("table3_d_dropout_0.0").dropout == 0
    assert preset("table3_d_smoothing_0.2").label_smoothing == 0.2
    assert preset("table3_e_learned").position_type == "learned"
    assert (preset("big").d_model, preset("big").dropout, preset("big").encoder_attention_heads) == (1024, 0.3, 16)


def test_base_is_the_default():
    assert preset("base").to_dict() == VaswaniConfig().to_dict()


def test_fields_can_be_changed():
    config = preset("system_c", vocab_size=100, decoder_vocab_size=90, dropout=0.3)
    assert (config.vocab_size, config.decoder_vocab_size, config.dropout) == (100, 90, 0.3)
    assert config.norm_position == "pre"


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(InputError, match=r"no preset 'bsae'.*base, big"):
        preset("bsae")


def test_fields_of_other_toolkits_are_rejected():
    with pytest.raises(InputError, match="encoder_embed_dim, nhead: not a field"):
        preset("fairseq", encoder_embed_dim=256, nhead=4)
    with pytest.raises(ValueError, match="encoder_normalize_before is not a field; use norm_position"):
        VaswaniConfig(encoder_normalize_before=True)


def shrunk(name: str) -> VaswaniConfig:
    """The preset with reduced sizes but the same choices."""
    fields = PRESETS[name]
    sizes = {**SMALL, "decoder_vocab_size": 50 if fields.get("share_encoder_decoder_embeddings", True) else 40}
    for stack in ("encoder", "decoder"):
        heads = min(fields.get(f"{stack}_attention_heads", 8), 8)
        sizes |= {f"{stack}_attention_heads": heads, f"{stack}_ffn_dim": 64}
    return preset(name, **sizes)


# Presets that differ in nothing but size are alike when shrunk.
DISTINCT = {str(shrunk(name)): name for name in reversed(PRESETS)}


@pytest.mark.parametrize(
    "name",
    slow_but(sorted(DISTINCT.values()), "base", "fairseq", "opennmt", "system_c", "table3_e_learned", "tensor2tensor"),
)
def test_preset_trains_generates_saves_and_reloads(tmp_path, name):
    torch.manual_seed(0)
    config = shrunk(name)
    model = VaswaniForConditionalGeneration(config).train()
    source, labels = torch.randint(5, 40, (4, 9)), torch.randint(5, 40, (4, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        loss = model(input_ids=source, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3
    model.eval()
    assert model.generate(source, num_beams=2, max_new_tokens=6).shape[0] == 4
    model.save_pretrained(tmp_path)
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        expected = model(input_ids=source, decoder_input_ids=labels).logits
        assert torch.equal(loaded.eval()(input_ids=source, decoder_input_ids=labels).logits, expected)


@pytest.mark.parametrize("name", [name for name in PRESETS if "decoder_vocab_size" in PRESETS[name]])
def test_vocabulary_size_of_a_preset_applies_to_both_sides_by_default(name):
    config = preset(name, vocab_size=50)
    assert (config.vocab_size, config.decoder_vocab_size) == (50, 50)
    config = preset(name, vocab_size=50, decoder_vocab_size=60)
    assert (config.vocab_size, config.decoder_vocab_size) == (50, 60)


def test_some_presets_have_two_vocabularies():
    assert any("decoder_vocab_size" in fields for fields in PRESETS.values())
