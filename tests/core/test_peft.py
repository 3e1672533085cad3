"""PEFT adapters on the model: they train, generate like any other model, and load back from their folder."""

import logging

import pytest
import torch

from hf_vaswani.generation import mixin

from ..conftest import tiny_model

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft", "ignore:.*is_gradient_checkpointing")

SOURCE = torch.tensor([[5, 9, 12, 7, 2], [6, 8, 2, 0, 0]])
INPUTS = {"input_ids": SOURCE, "attention_mask": SOURCE.ne(0).long()}
LABELS = torch.tensor([[9, 5, 6, 2], [5, 7, 2, 0]])
ADAPTERS = {
    "all linear layers": {"target_modules": "all-linear"},
    "embeddings": {"target_modules": ["embed_tokens"]},
    "single tokens": {"target_modules": ["q_proj"], "trainable_token_indices": [5, 6, 9]},
    "tokens of both sides": {"target_modules": ["q_proj"], "trainable_token_indices": {"embed_tokens": [5, 6]}},
    "entire embeddings": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
}
VOCABULARIES = {
    "tied": {},
    "tied except for the output projection": {"tie_word_embeddings": False},
    "two vocabularies": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 30},
}
adapters = pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=ADAPTERS.keys())
vocabularies = pytest.mark.parametrize("changes", VOCABULARIES.values(), ids=VOCABULARIES.keys())


def trained(model, adapter, steps=3):
    """The model with an adapter trained for a few steps, in evaluation mode, and the loss at each step."""
    config = peft.LoraConfig(task_type=peft.TaskType.SEQ_2_SEQ_LM, r=4, lora_alpha=16, **adapter)
    torch.manual_seed(1)
    adapted = peft.get_peft_model(model, config).train()
    optimizer = torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=0.5)
    losses = []
    for _ in range(steps):
        loss = adapted(**INPUTS, labels=LABELS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return adapted.eval(), losses


@vocabularies
@adapters
def test_adapter_trains_translates_and_reloads_from_its_folder(tmp_path, adapter, changes):
    changes = {**changes, "dropout": 0.0}
    adapted, losses = trained(tiny_model(**changes), adapter)
    assert losses[-1] < losses[0]
    tokens = adapted.generate(**INPUTS, num_beams=3, max_new_tokens=8)
    assert torch.equal(tokens, adapted.generate(**INPUTS, num_beams=3, max_new_tokens=8, use_cache=False))
    adapted.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(tiny_model(**changes), tmp_path).eval()
    expected = adapted(**INPUTS, decoder_input_ids=LABELS).logits
    assert torch.equal(loaded(**INPUTS, decoder_input_ids=LABELS).logits, expected)
    assert not torch.allclose(tiny_model(**changes)(**INPUTS, decoder_input_ids=LABELS).logits, expected)


@pytest.mark.parametrize("share", [True, False])
def test_single_tokens_can_be_trained_with_an_untied_output_projection(share):
    model = tiny_model(share_encoder_decoder_embeddings=share, tie_word_embeddings=False)
    before = model.get_encoder().embed_tokens.weight.detach().clone()
    adapted, _ = trained(model, {"target_modules": ["q_proj"], "trainable_token_indices": [5]})
    after = adapted.base_model.model.get_encoder().embed_tokens(torch.arange(40))
    assert (after != before).any(dim=1).nonzero().flatten().tolist() == [5]


def test_adapter_finds_both_embeddings_of_a_resized_model():
    model = tiny_model()
    model.resize_token_embeddings(44)
    adapted, _ = trained(model, {"target_modules": ["embed_tokens"]}, steps=1)
    names = {name.split(".lora")[0] for name, p in adapted.named_parameters() if p.requires_grad}
    assert names == {f"base_model.model.model.{stack}.embed_tokens" for stack in ("encoder", "decoder")}


@pytest.mark.parametrize("num_beams", [1, 3])
def test_adapter_keeps_the_fast_search_path(monkeypatch, num_beams):
    adapted, _ = trained(tiny_model(), ADAPTERS["all linear layers"])
    expected = adapted.generate(**INPUTS, num_beams=num_beams, max_new_tokens=8)
    monkeypatch.setattr(mixin, "BatchedDecoder", None)
    monkeypatch.setattr(mixin.GenerationMixin, "_sample", None)
    assert torch.equal(adapted.generate(**INPUTS, num_beams=num_beams, max_new_tokens=8), expected)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_each_sentence_of_a_batch_may_use_its_own_adapter(num_beams):
    adapted, _ = trained(tiny_model(), ADAPTERS["all linear layers"])
    search = {"num_beams": num_beams, "max_new_tokens": 8, "eos_token_id": None}
    mixed = adapted.generate(**INPUTS, **search, adapter_names=["default", "__base__"])
    assert torch.equal(mixed[0], adapted.generate(**INPUTS, **search)[0])
    with adapted.disable_adapter():
        assert torch.equal(mixed[1], adapted.generate(**INPUTS, **search)[1])
    assert not torch.equal(mixed[0], tiny_model().generate(**INPUTS, **search)[0])


@pytest.mark.parametrize("num_beams", [1, 3])
def test_search_reads_the_virtual_tokens_of_prefix_tuning(num_beams):
    sizes = {"num_layers": 2, "num_attention_heads": 4, "token_dim": 16, "num_transformer_submodules": 2}
    config = peft.PrefixTuningConfig(task_type=peft.TaskType.SEQ_2_SEQ_LM, num_virtual_tokens=4, **sizes)
    adapted = peft.get_peft_model(tiny_model(), config).eval()
    torch.manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "prompt" in name:
            torch.nn.init.normal_(parameter, std=3)
    target = torch.full((2, 1), adapted.config.decoder_start_token_id)
    search = {"num_beams": num_beams, "eos_token_id": None}
    first = adapted.generate(**INPUTS, **search, max_new_tokens=1)[:, 1]
    assert torch.equal(first, adapted(**INPUTS, decoder_input_ids=target).logits[:, -1].argmax(-1))
    assert not torch.equal(first, tiny_model()(**INPUTS, decoder_input_ids=target).logits[:, -1].argmax(-1))


def test_greedy_search_with_prefix_tuning_follows_the_forward_pass():
    sizes = {"num_layers": 2, "num_attention_heads": 4, "token_dim": 16, "num_transformer_submodules": 2}
    config = peft.PrefixTuningConfig(task_type=peft.TaskType.SEQ_2_SEQ_LM, num_virtual_tokens=4, **sizes)
    adapted = peft.get_peft_model(tiny_model(), config).eval()
    tokens = torch.full((2, 1), adapted.config.decoder_start_token_id)
    while tokens.shape[1] < 6:
        following = adapted(**INPUTS, decoder_input_ids=tokens).logits[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, following], dim=1)
    assert torch.equal(adapted.generate(**INPUTS, num_beams=1, eos_token_id=None, max_new_tokens=5), tokens)


@pytest.mark.parametrize("is_trained", [True, False])
def test_saving_warns_if_merging_left_tied_embeddings_with_different_values(tmp_path, caplog, monkeypatch, is_trained):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    config = peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["embed_tokens"])
    adapted = peft.get_peft_model(tiny_model(), config)
    if is_trained:
        for name, weight in adapted.named_parameters():
            if "decoder.embed_tokens.modules_to_save" in name:
                weight.data += 1
    adapted.merge_and_unload().save_pretrained(tmp_path)
    warnings = [text for text in caplog.messages if "are tied in the config" in text]
    assert len(warnings) == is_trained
    assert all(text.startswith("model.decoder.embed_tokens.weight and model.shared.weight") for text in warnings)
