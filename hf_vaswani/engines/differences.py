"""Checks whether another engine translates like the model that was exported to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import MarianMTModel, PreTrainedModel, PreTrainedTokenizerBase

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..generation.output_scores import log_probabilities, output_lengths
from ..generation.settings import position_limit

# Sources are made of random tokens: every model has tokens, but there may be no text at hand.
SENTENCES, SHORTEST, LONGEST, NEW_TOKENS, BEAMS = 24, 2, 14, 32, 4
# Two hypotheses whose log-probabilities per token differ by no more count as equal: summing in a different order can
# make that much of a difference.
TIE = 1e-3
# The same for logits in float32.
LARGEST_DEVIATION = 1e-4
SEED = 0


@dataclass(frozen=True)
class Difference:
    """A sentence that an engine translates differently, as token ids.

    `loss` is how much lower the log-probability per token of the engine's translation is than the model's.
    """

    source: list[int]
    expected: list[int]
    got: list[int]
    loss: float


def random_sources(
    tokenizer: PreTrainedTokenizerBase, vocab_size: int, positions: int | None = None
) -> list[list[int]]:
    """Make sentences of random tokens as ids, with the special tokens that the tokenizer adds to a text.

    Args:
        positions: the maximum number of tokens in a source, if there is a limit.
    """
    generator = torch.Generator().manual_seed(SEED)
    special = set(tokenizer.all_special_ids)
    usable = torch.tensor([i for i in range(min(vocab_size, len(tokenizer))) if i not in special])
    around = tokenizer("")["input_ids"]
    longest = max(min(LONGEST, (positions or LONGEST + len(around)) - len(around)), 1)
    sources = []
    for number in range(SENTENCES):
        length = min(SHORTEST + number * (LONGEST - SHORTEST) // (SENTENCES - 1), longest)
        chosen = torch.randint(len(usable), (length,), generator=generator)
        ids = usable[chosen].tolist()
        sources.append([*around[:-1], *ids, *around[-1:]])
    return sources


def differences(
    model: VaswaniForConditionalGeneration,
    engine: PreTrainedModel,
    sources: Sequence[list[int]],
    num_beams: int = BEAMS,
) -> list[Difference]:
    """Find the sentences that an engine does not translate into the model's tokens, ties aside.

    Args:
        model: the exported model, in float32.
        sources: the token ids of each sentence.
    """
    found = []
    # One less than the limit, since the decoder's start token has a position, too.
    new_tokens = min(NEW_TOKENS, (position_limit(model.get_decoder()) or NEW_TOKENS + 1) - 1)
    settings = {"num_beams": num_beams, "max_new_tokens": new_tokens, "do_sample": False, "length_penalty": 1.0}
    if num_beams > 1:
        # The rule by which all engines end a sentence at the same step: what differs is then computed differently.
        settings["early_stopping"] = True
    # transformers' own search has only this length penalty, and warns if there is a second length limit.
    further = {"max_length": None} if isinstance(engine, MarianMTModel) else {"length_penalty_type": "length"}
    eos = model.config.eos_token_id
    ends = [eos] if isinstance(eos, int) else list(eos)
    for source in sources:
        input_ids = torch.tensor([source])
        expected = model.generate(input_ids.to(model.device), length_penalty_type="length", **settings).cpu()
        got = engine.generate(input_ids, **settings, **further)
        outputs = [ids[:, : int(output_lengths(ids, ends, None))] for ids in (expected, got)]
        if outputs[0].tolist() == outputs[1].tolist():
            continue
        inputs = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
        inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}
        best, other = (
            float(log_probabilities(model, inputs, ids.to(model.device), torch.tensor([ids.shape[1]]))[0])
            / max(ids.shape[1] - 1, 1)
            for ids in outputs
        )
        if abs(best - other) > TIE:
            found.append(Difference(source, outputs[0][0].tolist(), outputs[1][0].tolist(), best - other))
    return found


@torch.no_grad()
def logit_deviation(
    model: VaswaniForConditionalGeneration, engine: PreTrainedModel, sources: Sequence[list[int]]
) -> float:
    """The largest difference between the logits of the model and the engine for the same tokens.

    Args:
        model: the exported model, in float32.
        sources: the token ids of each sentence; they also serve as its target.
    """
    largest = 0.0
    for source in sources:
        ids = torch.tensor([source])
        # Any target will do; this one is as long as a translation.
        start = torch.full((1, 1), model.config.decoder_start_token_id)
        target = torch.cat([start, ids[:, :-1] % model.config.decoder_vocab_size], dim=1)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": target}
        got = engine(**inputs).logits
        expected = model(**{name: tensor.to(model.device) for name, tensor in inputs.items()}).logits.cpu()
        # NaN counts as infinitely far off.
        largest = max(largest, float((got - expected).abs().nan_to_num(nan=torch.inf).max()))
    return largest
