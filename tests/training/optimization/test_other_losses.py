"""The loss of transformers' other classes: theirs, with label smoothing, as a sum over target tokens."""

import pytest
import torch

from hf_vaswani.data.encoding import Collator, EncodedPairs, plain_encoder
from hf_vaswani.training.optimization.step_loss import likelihood, training_loss

from ...families import FAMILIES, LANGUAGES, family

OTHERS = [name for name in FAMILIES if name != "Vaswani"]


@pytest.fixture(params=OTHERS)
def model_and_batch(request, tmp_path):
    """A model without dropout, and a batch with padding on both sides."""
    model, tokenizer = family(request.param, tmp_path)
    if request.param in LANGUAGES:
        tokenizer.src_lang, tokenizer.tgt_lang = LANGUAGES[request.param]
    sides = plain_encoder(tokenizer)(["ein hund läuft", "katze"], ["haus", "die katze schläft"], None)
    return model, Collator(tokenizer.pad_token_id)(EncodedPairs.of(*sides).rows([0, 1]))


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def test_smoothed_loss_and_gradients_are_those_of_the_models_own_logits(model_and_batch):
    model, batch = model_and_batch
    model.config.label_smoothing = 0.1
    loss = training_loss(model, batch, 7.0)
    found = gradients(model, loss)
    labels = batch["labels"]
    assert (labels == -100).any() and not batch["attention_mask"].all()
    # transformers shifts the labels itself.
    log_probs = model(**batch).logits[labels != -100].log_softmax(-1)
    right = log_probs.gather(1, labels[labels != -100].unsqueeze(1)).squeeze(1)
    expected = -(0.9 * right + 0.1 * log_probs.mean(-1)).sum() / 7
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    own = gradients(model, expected)
    assert found.keys() == own.keys()
    for name, value in own.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4)


def test_loss_without_smoothing_is_the_models_own_times_its_tokens(model_and_batch):
    model, batch = model_and_batch
    tokens = int((batch["labels"] != -100).sum())
    with torch.no_grad():
        own = model(**batch)
        total, logits = likelihood(model, batch)
    assert total.item() == pytest.approx(own.loss.item() * tokens, rel=1e-5)
    assert torch.equal(logits, own.logits)
    assert training_loss(model, batch, tokens).item() == pytest.approx(own.loss.item(), rel=1e-5)
