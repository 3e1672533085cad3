"""transformers' own Seq2SeqTrainer with this package's model."""

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from datasets import Dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    pipeline,
)

from hf_vaswani.core.modeling_cache import CACHE_NAME

from ..conftest import tiny_model


@pytest.fixture
def pairs(tokenizer):
    """48 pairs of 1 to 9 tokens."""
    generator = np.random.default_rng(0)

    def texts():
        return [" ".join(f"w{i}" for i in generator.integers(0, 36, generator.integers(1, 9))) for _ in range(48)]

    return Dataset.from_dict(dict(tokenizer(texts(), text_target=texts())))


@pytest.fixture
def make_trainer(tmp_path, tokenizer, pairs):
    def make(model=None, collator_has_model=True, **changes):
        model = model or tiny_model(dropout=0.0)
        arguments = {
            "max_steps": 10, "logging_steps": 1, "report_to": "none", "disable_tqdm": True, "learning_rate": 0.2,
            "optim": "sgd", "per_device_train_batch_size": 4, "save_strategy": "no", "dataloader_pin_memory": False,
            "use_cpu": True,
        }  # fmt: skip
        return Seq2SeqTrainer(
            model,
            Seq2SeqTrainingArguments(output_dir=str(tmp_path / "trainer"), **{**arguments, **changes}),
            train_dataset=pairs,
            eval_dataset=pairs.select(range(6)),
            processing_class=tokenizer,
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=model if collator_has_model else None),
        )

    return make


def losses(trainer):
    return [record["loss"] for record in trainer.state.log_history if "loss" in record]


@pytest.mark.slow
def test_accumulating_four_batches_equals_one_batch_four_times_as_large(make_trainer):
    one, four = make_trainer(per_device_train_batch_size=16), make_trainer(gradient_accumulation_steps=4)
    one.train()
    four.train()
    assert len(losses(one)) == 10
    assert losses(one)[-1] < losses(one)[0] - 0.05
    np.testing.assert_allclose(losses(four), losses(one), rtol=1e-5)
    for value, expected in zip(four.model.parameters(), one.model.parameters()):
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)


def smoothed_and_plain_loss(model, batch, epsilon):
    """Cross-entropy against (1 - epsilon) · one-hot + epsilon / V and against one-hot, per target token."""
    with torch.no_grad():
        log_probabilities = model(
            batch["input_ids"], batch["attention_mask"], labels=batch["labels"]
        ).logits.log_softmax(-1)
    is_token = batch["labels"] != -100
    correct = log_probabilities.gather(-1, batch["labels"].clamp(min=0).unsqueeze(-1)).squeeze(-1)
    smoothed = (1 - epsilon) * correct + epsilon * log_probabilities.mean(-1)
    return -smoothed[is_token].mean().item(), -correct[is_token].mean().item()


@pytest.mark.parametrize("in_config, in_trainer", [(0.1, 0.0), (0.1, 0.1), (0.0, 0.1)])
def test_labels_are_smoothed_once_wherever_smoothing_is_set(make_trainer, in_config, in_trainer):
    model = tiny_model(dropout=0.0, label_smoothing=in_config)
    trainer = make_trainer(model, label_smoothing_factor=in_trainer)
    batch = dict(next(iter(trainer.get_eval_dataloader())))
    smoothed, plain = smoothed_and_plain_loss(model, batch, 0.1)
    assert smoothed != pytest.approx(plain, rel=1e-4)
    loss = trainer.compute_loss(model.train(), dict(batch), num_items_in_batch=batch["labels"].ne(-100).sum())
    assert loss.item() == pytest.approx(smoothed, rel=1e-5)
    # The Trainer's label smoothing applies to the evaluation, too; the model's does not.
    assert trainer.evaluate()["eval_loss"] == pytest.approx(smoothed if in_trainer else plain, rel=1e-5)


@pytest.fixture
def warnings(monkeypatch):
    """The warnings of the model."""
    messages = []
    monkeypatch.setattr("hf_vaswani.core.modeling_base.logger.warning_once", messages.append)
    return messages


@pytest.mark.slow
def test_trainer_label_smoothing_and_fp16_on_a_cpu_cause_warnings(make_trainer, warnings):
    make_trainer(label_smoothing_factor=0.1, max_steps=1).train()
    assert warnings and all("it smooths the evaluation loss too" in line for line in warnings)
    warnings.clear()
    AcceleratorState._reset_state(reset_partial_state=True)
    make_trainer(fp16=True, max_steps=1).train()
    assert warnings and all("fp16=True has no effect on a CPU" in line for line in warnings)
    warnings.clear()
    AcceleratorState._reset_state(reset_partial_state=True)
    make_trainer(bf16=True, max_steps=1).train()
    make_trainer(max_steps=1).evaluate()
    assert not warnings
    AcceleratorState._reset_state(reset_partial_state=True)


def test_trainer_label_smoothing_without_decoder_inputs_is_a_clear_error(make_trainer):
    trainer = make_trainer(collator_has_model=False, label_smoothing_factor=0.1)
    with pytest.raises(ValueError, match="label_smoothing_factor took them: use label_smoothing in the config"):
        trainer.train()


@pytest.mark.parametrize("collator_has_model", [True, False])
def test_predict_with_generate_matches_generate(make_trainer, tokenizer, pairs, collator_has_model):
    trainer = make_trainer(
        collator_has_model=collator_has_model,
        predict_with_generate=True,
        generation_max_length=12,
        label_smoothing_factor=0.0,
    )
    trainer.train()
    few = pairs.select(range(6))
    predictions = trainer.predict(few, num_beams=2).predictions
    inputs = tokenizer.pad({"input_ids": few["input_ids"][:]}, return_tensors="pt")
    expected = trainer.model.generate(**inputs, num_beams=2, max_length=12)
    assert predictions[:, : expected.shape[1]].tolist() == expected.tolist()
    assert (predictions[:, expected.shape[1] :] == tokenizer.pad_token_id).all()


def test_max_length_offset_holds_for_predict_and_for_the_saved_model(make_trainer, tokenizer, pairs):
    model = tiny_model(dropout=0.0)
    model.generation_config.update(eos_token_id=None)
    model.config.eos_token_id = None  # only its length limit ends a translation
    lengths = [len(ids) + 50 for ids in pairs["input_ids"][:6]]
    trainer = make_trainer(model, predict_with_generate=True, per_device_eval_batch_size=2, max_steps=1)
    predictions = trainer.predict(pairs.select(range(6))).predictions
    assert predictions.shape[1] == 1 + max(lengths)
    trainer.save_model()
    loaded = AutoModelForSeq2SeqLM.from_pretrained(trainer.args.output_dir)
    assert loaded.generate(torch.tensor([pairs["input_ids"][0]])).shape[1] == 1 + lengths[0]
    translator = pipeline("translation", model=loaded, tokenizer=tokenizer)
    [entry] = translator("w1 w2", return_tensors=True)
    assert len(entry["translation_token_ids"]) == 1 + len(tokenizer("w1 w2")["input_ids"]) + 50


def test_trainer_checkpoints_load_and_generate_with_a_cache(make_trainer):
    trainer = make_trainer(save_strategy="steps", save_steps=10)
    trainer.train()
    folder = f"{trainer.args.output_dir}/checkpoint-10"
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    for value, expected in zip(model.parameters(), trainer.model.parameters(), strict=True):
        assert torch.equal(value, expected)
    inputs = AutoTokenizer.from_pretrained(folder)(["w1 w2"], return_tensors="pt")
    output = model.generate(**inputs, max_length=5, return_dict_in_generate=True)
    assert getattr(output, CACHE_NAME) is not None


@pytest.mark.slow
def test_trainer_resumes_bit_for_bit(make_trainer):
    model = tiny_model(dropout=0.1)
    whole = make_trainer(model, save_strategy="steps", save_steps=4, gradient_accumulation_steps=5)
    whole.train()
    resumed = make_trainer(tiny_model(dropout=0.1), gradient_accumulation_steps=5)
    resumed.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-4")
    for value, expected in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(value, expected)
