import json
import pickle
import zipfile
from argparse import Namespace

import numpy as np
import pytest
import torch
from torch import nn

from hf_vaswani.errors import InputError
from hf_vaswani.interop import import_model

from ..conftest import tiny_model
from .foreign import random_marian


class Trap:
    """Its pickle creates a file when it is executed."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("place", ["args", "model"])
def test_pickle_with_foreign_classes_is_rejected_by_name_and_not_executed(tmp_path, place):
    trace = tmp_path / "executed"
    contents = {"model": {}, "args": Namespace(), place: Trap(trace)}
    torch.save(contents, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"(io|_io|builtins)\.open"):
        import_model(tmp_path / "model.pt")
    assert not trace.exists()


def test_plain_pickle_with_foreign_classes_is_rejected(tmp_path):
    trace = tmp_path / "executed"
    (tmp_path / "model.pt").write_bytes(pickle.dumps({"model": {}, "args": Trap(trace)}, protocol=2))
    with pytest.raises(InputError, match="model.pt"):
        import_model(tmp_path / "model.pt")
    assert not trace.exists()


def test_marian_folder_with_a_dangerous_pickle_is_rejected_by_name(tmp_path):
    marian = random_marian(0)
    marian.config.save_pretrained(tmp_path)
    trace = tmp_path / "executed"
    torch.save({**marian.state_dict(), "more": Trap(trace)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"(io|_io|builtins)\.open"):
        import_model(tmp_path)
    assert not trace.exists()


def test_marian_folder_with_weights_in_a_pickle_is_read(tmp_path):
    marian = random_marian(0)
    marian.config.save_pretrained(tmp_path)
    torch.save(marian.state_dict(), tmp_path / "pytorch_model.bin")
    model = import_model(tmp_path)
    assert torch.equal(model.lm_head.weight, marian.lm_head.weight)


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_truncated_checkpoint_raises_one_clear_error(tmp_path, kept):
    path = tmp_path / "model.pt"
    torch.save({"model": {"x": torch.zeros(5000)}, "args": Namespace()}, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        InputError,
        match="model.pt is not a checkpoint written by torch.save, or it is truncated. Copy or download it again",
    ):
        import_model(path)


@pytest.mark.parametrize("kept", [0, 5, 3000])
def test_truncated_safetensors_raise_one_clear_error(tmp_path, kept):
    random_marian(0).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match="cannot be read"):
        import_model(tmp_path)


def test_text_in_a_safetensors_file_raises_one_clear_error(tmp_path):
    random_marian(0).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="cannot be read"):
        import_model(tmp_path)


def test_missing_weights_of_a_marian_folder_are_reported(tmp_path):
    marian = random_marian(0)
    state = marian.state_dict()
    marian.config.save_pretrained(tmp_path)
    del state["model.decoder.layers.0.fc1.weight"]
    torch.save(state, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"lacks weights.*model\.decoder\.layers\.0\.fc1\.weight"):
        import_model(tmp_path)


def test_weights_that_do_not_match_the_configs_vocab_size_are_rejected(tmp_path):
    marian = random_marian(0)
    marian.save_pretrained(tmp_path)
    marian.config.vocab_size += 7
    marian.config.decoder_vocab_size += 7
    marian.config.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="embed_tokens|shared|final_logits_bias"):
        import_model(tmp_path)


def test_folder_without_weights_raises_one_clear_error(tmp_path):
    random_marian(0).config.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has no weights"):
        import_model(tmp_path)


def test_checkpoint_in_marians_native_format_is_rejected_with_its_converter(tmp_path):
    np.savez(tmp_path / "model.npz", encoder_Wemb=np.zeros((2, 2)))
    for source in (tmp_path / "model.npz", tmp_path):
        with pytest.raises(InputError, match="in Marian's native format.*convert_marian_to_pytorch"):
            import_model(source)


def test_unsupported_model_type_is_rejected_with_the_supported_ones(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(InputError, match=r"of type 't5'.*MarianMT and FSMT"):
        import_model(tmp_path)


def test_unknown_model_type_is_rejected(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "of-tomorrow"}')
    with pytest.raises(InputError, match="of type 'of-tomorrow'"):
        import_model(tmp_path)


def test_damaged_config_raises_one_clear_error(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "marian", ')
    with pytest.raises(InputError, match="cannot be read"):
        import_model(tmp_path)


def test_model_of_this_package_is_not_imported(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="already a model of this package"):
        import_model(tmp_path)


@pytest.mark.parametrize("source", ["no/such/folder", "./nothing", "model.pt"])
def test_missing_source_raises_one_clear_error(source):
    with pytest.raises(InputError, match="does not exist|is not a local folder"):
        import_model(source)


def test_file_that_is_not_a_checkpoint_is_rejected(tmp_path):
    torch.save([torch.zeros(3)], tmp_path / "list.pt")
    with pytest.raises(InputError, match="contains a list, not a checkpoint"):
        import_model(tmp_path / "list.pt")
    torch.save({"weights": {}}, tmp_path / "dict.pt")
    with pytest.raises(InputError, match="contains weights, which is neither fairseq's nor OpenNMT-py's"):
        import_model(tmp_path / "dict.pt")
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("text", "no checkpoint")
    with pytest.raises(InputError, match=r"zip\.pt is not a checkpoint written by torch\.save, or"):
        import_model(tmp_path / "zip.pt")
    (tmp_path / "text.txt").write_text("Ein Hund läuft.\n")
    with pytest.raises(InputError, match=r"text\.txt is not a checkpoint written by torch\.save, or"):
        import_model(tmp_path / "text.txt")


def test_pickled_module_is_rejected_by_name(tmp_path):
    torch.save(nn.Transformer(8, 2, 1, 1, 8), tmp_path / "module.pt")
    with pytest.raises(InputError, match=r"torch\.nn\.modules\.transformer\.Transformer"):
        import_model(tmp_path / "module.pt")


def test_folder_with_several_checkpoints_is_rejected(tmp_path):
    for name in ("checkpoint1.pt", "checkpoint2.pt"):
        torch.save({}, tmp_path / name)
    with pytest.raises(InputError, match="has 2 checkpoints"):
        import_model(tmp_path)


def test_module_that_is_not_a_transformer_is_rejected():
    with pytest.raises(InputError, match="A Linear cannot be imported"):
        import_model(nn.Linear(3, 3))
    with pytest.raises(InputError, match="A VaswaniForConditionalGeneration cannot be imported"):
        import_model(tiny_model())


def test_code_in_a_folder_is_never_executed(tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    trace = tmp_path / "executed"
    (tmp_path / "configuration_evil.py").write_text(
        f"open({str(trace)!r}, 'w')\nfrom transformers import PreTrainedConfig\n"
        "class EvilConfig(PreTrainedConfig):\n    model_type = 'evil'\n"
    )
    config = {"model_type": "evil", "auto_map": {"AutoConfig": "configuration_evil.EvilConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="of type 'evil'"):
        import_model(tmp_path)
    assert not trace.exists()


def test_classes_registered_as_safe_for_torch_stay_registered(tmp_path):
    torch.serialization.add_safe_globals([Namespace, Trap])
    try:
        torch.save({"weights": {}}, tmp_path / "other.pt")
        with pytest.raises(InputError):
            import_model(tmp_path / "other.pt")
        assert {Namespace, Trap} <= set(torch.serialization.get_safe_globals())
    finally:
        torch.serialization.clear_safe_globals()


@pytest.mark.parametrize(
    "change",
    [{"d_model": 0}, {"encoder_attention_heads": 0}, {"vocab_size": 0}, {"pad_token_id": 10**9}, {"dtype": "float7"}],
    ids=str,
)
def test_invalid_config_raises_one_clear_error(tmp_path, change):
    random_marian(0).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(InputError, match=str(tmp_path)):
        import_model(tmp_path)


@pytest.mark.parametrize("content", ["null", "3", "[]", '{"model_type": ["marian"]}'])
def test_malformed_config_raises_one_clear_error(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=str(tmp_path)):
        import_model(tmp_path)


def test_damaged_generation_config_raises_one_clear_error(tmp_path):
    random_marian(0).save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(InputError, match=r"generation_config\.json cannot be read"):
        import_model(tmp_path)


def test_name_with_a_dot_may_be_a_hub_id():
    with pytest.raises(InputError, match=r"someone/opus-mt-v1\.5 is not a local folder, and cannot be loaded"):
        import_model("someone/opus-mt-v1.5")


def test_dictionaries_for_a_source_that_uses_none_are_rejected(tmp_path):
    random_marian(0).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="so no dictionaries can be given"):
        import_model(tmp_path, vocabularies=tmp_path)
