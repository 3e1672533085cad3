# %% [markdown]
# # 2. Training
#
# This notebook trains a small Transformer from scratch, in a few minutes on a CPU. Then it looks inside,
# and it shows what breaks when a part of the model is left out.

# %%
import itertools
import math
import os

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn import functional as F
from transformers.utils.logging import disable_progress_bar

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration

disable_progress_bar()
plt.rcParams.update({"figure.dpi": 80, "figure.figsize": (6.4, 3.4), "figure.constrained_layout.use": True})
torch.set_printoptions(precision=4, sci_mode=False)

# %% [markdown]
# The text is the package's built-in corpus. To save time, only sentences of at most eight words are used.

# %%
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer


def short_pairs(split):
    """Pairs (German, English) of the built-in corpus with at most eight German words."""
    source = TextSource.parse({"dataset": "built-in", "split": split}, "the lesson's text")
    return [pair for pair in iterate_pairs(source, ("de", "en")) if len(pair[0].split()) <= 8]


train_pairs, validation_pairs, test_pairs = map(short_pairs, ("train", "validation", "test"))
tokenizer = train_tokenizer(train_pairs, TokenizerArguments(vocab_size=1000))
print(len(train_pairs), "pairs to train with, such as", train_pairs[1])

# %% [markdown]
# ## Batches (section 5.1)
#
# *In the package:* `TokenBudgetBatches` in `hf_vaswani/data/batches.py`, `Collator` in `hf_vaswani/data/encoding.py`
#
# > **The paper:** batches of about 25,000 source tokens and 25,000 target tokens each, of sentences of similar length.
#
# Batches are measured in tokens, not sentences. Sentences of similar length go together, so there is little padding.

# %%
from hf_vaswani.data.batches import TokenBudgetBatches
from hf_vaswani.data.encoding import Collator, encode_pairs

encoded, validation = (encode_pairs(pairs, tokenizer) for pairs in (train_pairs, validation_pairs))
collate = Collator(tokenizer.pad_token_id)
batches = TokenBudgetBatches(encoded.source_lengths, encoded.target_lengths, max_tokens=1024)
batch = collate(encoded.rows(batches.epoch(0)[0]))
print({name: tuple(tensor.shape) for name, tensor in batch.items()})
print(f"padding {batches.padding_ratio(batches.epoch(0)):.1%}; without sorting {batches.random_padding_ratio():.1%}")

# %% [markdown]
# ## What the model learns from a pair (section 3.1)
#
# *In the package:* `VaswaniForConditionalGeneration.prepare_decoder_input_ids_from_labels`
#
# The decoder reads the correct translation, shifted by one, and has to predict the next token at every position. All
# positions are trained at once; the causal mask keeps each from seeing its answer.

# %%
torch.manual_seed(0)
SIZES = {
    "vocab_size": len(tokenizer),
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
whole = VaswaniForConditionalGeneration(
    VaswaniConfig(**SIZES, d_model=96, encoder_ffn_dim=384, decoder_ffn_dim=384, label_smoothing=0.1)
)
labels = tokenizer(text_target=["He is my brother."], return_tensors="pt")["input_ids"]
for name, ids in (("reads", whole.prepare_decoder_input_ids_from_labels(labels)), ("predicts", labels)):
    print(f"{name:9}", tokenizer.convert_ids_to_tokens(ids[0].tolist()))

# %% [markdown]
# ## Label smoothing (section 5.4)
#
# *In the package:* `sequence_loss` in `hf_vaswani/core/modeling_vaswani.py`
#
# The loss compares the model's probabilities with a target. With label smoothing ε = 0.1, the target isn't 1 for the
# right token and 0 for the others: every token of the vocabulary gets ε/V, and the right one 1 − ε more.

# %%
from hf_vaswani.core.modeling_vaswani import sequence_loss

V, epsilon, right = len(tokenizer), 0.1, 7
target = torch.full((V,), epsilon / V)
target[right] += 1 - epsilon
print(f"the right token {target[right]:.4f}, every other {target[0]:.4f}, together {target.sum():.4f}")

logits = torch.randn(1, 1, V)  # (batch, target_length, V)
by_hand = -(target * logits[0, 0].log_softmax(-1)).sum()
print(torch.allclose(by_hand, sequence_loss(logits, torch.tensor([[right]]), label_smoothing=epsilon)))

# %% [markdown]
# The loss is smallest where the model gives the right token a probability of 0.9001, not 1: this keeps it from
# becoming overconfident.
#
# ## The learning rate (section 5.3)
#
# *In the package:* `learning_rate` in `hf_vaswani/training/schedule.py`
#
# > lrate = d_model^−0.5 · min(step^−0.5, step · warmup^−1.5)
#
# It rises during warm-up and then falls with the square root of the step.

# %%
from hf_vaswani.training.schedule import learning_rate

steps = range(1, 20001, 50)
for d_model, warmup in ((512, 4000), (512, 8000), (256, 4000)):
    rates = [learning_rate("paper", step, peak=1, warmup=warmup, max_steps=None, d_model=d_model) for step in steps]
    plt.plot(steps, rates, label=f"d_model {d_model}, warm-up {warmup}")
plt.xlabel("step")
plt.title("the paper's learning rate")
plt.legend()
plt.show()

# %% [markdown]
# ## The training loop (section 5)
#
# *In the package:* `hf_vaswani/training/loop.py`, which does the same with checkpoints, several processes, and more
#
# A step: read a batch, compute the loss, compute its gradient, move the weights a little against it. Validation
# measures the loss on sentences that the model doesn't learn from, without smoothing.

# %%
# The number of steps can be cut down, to try the notebook: LESSON_STEPS=3.
MOST_STEPS = int(os.environ.get("LESSON_STEPS", 10**6))
validation_batches = [
    collate(validation.rows(rows))
    for rows in TokenBudgetBatches(validation.source_lengths, validation.target_lengths, 2048).epoch(0)
]


def validation_loss(model, extra=lambda batch: {}):
    """Mean loss per target token."""
    model.eval()
    total = tokens = 0
    with torch.no_grad():
        for batch in validation_batches:
            count = (batch["labels"] != -100).sum().item()
            total += model(**batch, **extra(batch)).loss.item() * count
            tokens += count
    model.train()
    return total / tokens


def train(model, steps, peak=0.004, warmup=60, every=50, extra=lambda batch: {}):
    """Train a model, and return its validation losses along the way."""
    steps = min(steps, MOST_STEPS)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    random_batches = itertools.chain.from_iterable(batches.epoch(number) for number in itertools.count())
    losses = {0: validation_loss(model, extra)}
    for step, rows in enumerate(itertools.islice(random_batches, steps), start=1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(
                "inverse_sqrt", step, peak=peak, warmup=warmup, max_steps=None, d_model=model.config.d_model
            )
        batch = collate(encoded.rows(rows))
        model(**batch, **extra(batch)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % every == 0 or step == steps:
            losses[step] = validation_loss(model, extra)
    model.eval()
    return losses


curve = train(whole, steps=700)
plt.plot(curve.keys(), curve.values(), marker=".")
plt.axhline(math.log(V), color="0.6", linestyle="--", label="every token equally likely: ln V")
plt.xlabel("step")
plt.ylabel("validation loss")
plt.legend()
plt.show()
print(f"perplexity at the end: {math.exp(list(curve.values())[-1]):.1f}")

# %% [markdown]
# A perplexity of p means that the model is as unsure of the next token as if it had to choose among p equally likely
# ones. Sentences that it has never seen:


# %%
def translate(model, texts, **settings):
    """Greedy translations, unless settings say otherwise."""
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    output_ids = model.generate(**inputs, **{"num_beams": 1, "max_new_tokens": 30, **settings})
    return tokenizer.batch_decode(output_ids, skip_special_tokens=True)


for (source, reference), translation in zip(test_pairs[:6], translate(whole, [pair[0] for pair in test_pairs[:6]])):
    print(f"{source}\n   model      {translation}\n   reference  {reference}")
whole.save_pretrained("lesson_model")
saved = tokenizer.save_pretrained("lesson_model")
# %% [markdown]
# ## Inside: the states of each layer (section 3.1)
#
# *In the package:* `VaswaniEncoder.forward`, with `output_hidden_states=True`
#
# One sentence on its way through the encoder. How similar are the states of its tokens, before the first layer and
# after each one? (1: the same direction; 0: nothing in common.)

# %%
from hf_vaswani.text.token_spans import readable_tokens

source, target = test_pairs[4]
inputs = tokenizer([source], return_tensors="pt")
tokens = readable_tokens(tokenizer, tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist()))
with torch.no_grad():
    states = whole.get_encoder()(**inputs, output_hidden_states=True).hidden_states
figure, panels = plt.subplots(1, len(states), figsize=(10.5, 3.8))
for number, (panel, state) in enumerate(zip(panels, states)):
    directions = F.normalize(state[0], dim=-1)  # (length, d_model)
    panel.imshow(directions @ directions.T, cmap="RdBu", vmin=-1, vmax=1)
    panel.set_title("embeddings + positions" if number == 0 else f"after layer {number - 1}")
    panel.set_xticks(range(len(tokens)), tokens, rotation=90)
    panel.set_yticks(range(len(tokens)), tokens if number == 0 else [])
plt.show()

# %% [markdown]
# At first, tokens have little in common. Neighbors are a bit more alike, because of their positions, and so are the
# two names. Then each token takes in what it needs from the others. At the end, the pieces of *sagt,* have become
# alike: only together do they mean something. And `</s>` has become like `▁Martin`, the subject of the sentence.
#
# ## Inside: what heads look at (sections 3.2.2 and 3.2.3)
#
# *In the package:* `draw_sentence` in `hf_vaswani/evaluation/attention.py`
#
# Each row is a token of the translation that is about to be written; dark cells are the source tokens it looks at.

# %%
from hf_vaswani.evaluation.attention import draw_sentence


def small(figure):
    """A figure with fewer pixels."""
    figure.set_dpi(80)
    return figure


small(draw_sentence(whole, tokenizer, source, kind="cross", layer="all", head="all", num_beams=1))

# %% [markdown]
# The heads of the first layer (layer 0) are vague. The second layer's (layer 1) go along the sentence with the
# translation: from `▁I` to `▁ich`, from `▁th` (the beginning of *thinking*) to `▁an`, the preposition in *denken an*.
# For the first word, most of them look at `</s>`. That is less strange than it seems: the figure above showed that
# `</s>` is like `▁Martin`.
#
# The encoder's heads show why. Rows look at columns, in both directions, and `</s>` looks at `▁Martin`:

# %%
small(draw_sentence(whole, tokenizer, source, kind="encoder", layer=0, head="all", num_beams=1))

# %% [markdown]
# The decoder's own attention has the shape of the causal mask. Some heads look mostly at the token just read:

# %%
small(draw_sentence(whole, tokenizer, source, kind="decoder", layer=0, head="all", num_beams=1))

# %% [markdown]
# ## What breaks without a part?
#
# Here, a smaller model is trained briefly: first as a whole, then each time without one of its parts. It has one wide
# head in each attention, `d_k` 256, since the scale matters most for wide heads.

# %%
SHORT = 200
SMALL = {**SIZES, "d_model": 64, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "d_k": 256}
SMALL |= {"encoder_attention_heads": 1, "decoder_attention_heads": 1}


def small_model(**changes):
    torch.manual_seed(0)
    return VaswaniForConditionalGeneration(VaswaniConfig(**{**SMALL, **changes}))


def compare(**curves):
    for name, losses in curves.items():
        plt.plot(losses.keys(), losses.values(), marker=".", label=name.replace("_", " "))
    plt.xlabel("step")
    plt.ylabel("validation loss")
    plt.legend()
    plt.show()
    print("at the end:", {name: round(list(losses.values())[-1], 2) for name, losses in curves.items()})


small_whole = small_model()
curve_of_whole = train(small_whole, SHORT)

# %% [markdown]
# ### Without 1/√d_k (section 3.2.1)
#
# Scores are 16 times as large. Each softmax puts all its weight on one token before the model has learned which one
# matters, and where it is that sure, hardly any gradient comes through.

# %%
unscaled = small_model()
for module in unscaled.modules():
    if hasattr(module, "scaling"):  # VaswaniAttention
        module.scaling = 1.0
compare(whole=curve_of_whole, without_the_scale=train(unscaled, SHORT))

# %% [markdown]
# ### Without positions (section 3.5)
#
# The encoder then sees a bag of words. If the words are reordered, their states are merely reordered, too:

# %%
unordered = small_model(position_type="none").eval()
ids = tokenizer(["Peter sieht den Hund."], return_tensors="pt")["input_ids"]
order = torch.randperm(ids.shape[1])
with torch.no_grad():
    for name, model in (("whole", small_whole), ("without positions", unordered)):
        states, of_reordered = (model.get_encoder()(x).last_hidden_state[0] for x in (ids, ids[:, order]))
        print(f"{name:18} the same states: {torch.allclose(states[order], of_reordered, atol=1e-4)}")

# %% [markdown]
# This hardly shows in our corpus, since its words alone nearly always tell who does what to whom. So here is a task in
# which order is everything: write eight random letters backward. A model of one layer learns it within seconds;
# without positions it learns which letters there are, and has to guess their order.


# %%
def letters(sentences, generator):
    """Eight random letters, of twenty, and the same backward; id 2 ends both."""
    source = torch.randint(4, 24, (sentences, 8), generator=generator)
    end = torch.full((sentences, 1), 2)
    return {"input_ids": torch.cat([source, end], 1), "labels": torch.cat([source.flip(1), end], 1)}


def learn_to_reverse(position_type, steps=300):
    """The loss on 200 sequences that the model has never seen, every 25 steps."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 24, "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    sizes |= {
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
    }
    model = VaswaniForConditionalGeneration(VaswaniConfig(**sizes, position_type=position_type))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002, betas=(0.9, 0.98), eps=1e-9)
    generator, losses = torch.Generator().manual_seed(1), {}
    unseen = letters(200, torch.Generator().manual_seed(2))
    for step in range(1, min(steps, MOST_STEPS) + 1):
        model.train()(**letters(64, generator)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 25 == 0 or step == 1:
            with torch.no_grad():
                losses[step] = model.eval()(**unseen).loss.item()
    return losses


compare(whole=learn_to_reverse("sinusoidal"), without_positions=learn_to_reverse("none"))

# %% [markdown]
# ### Without the causal mask (section 3.2.3)
#
# The loss falls far below the whole model's. Is it better? No: it copies the answer, which it can see. When it
# has to translate, there is no answer to copy yet, and it fails.


# %%
def see_everything(batch):
    """A mask that lets every position of the target see all others."""
    sentences, length = batch["labels"].shape
    return {"decoder_attention_mask": torch.ones(sentences, 1, length, length, dtype=torch.bool)}


cheating = small_model()
compare(whole=curve_of_whole, without_causal_mask=train(cheating, SHORT, extra=see_everything))
sources = [pair[0] for pair in test_pairs[:4]]
for name, model in (("whole", small_whole), ("without causal mask", cheating)):
    print(f"\n{name}:")
    print("\n".join(f"   {source} → {text}" for source, text in zip(sources, translate(model, sources))))

# %% [markdown]
# ### Without label smoothing (section 5.4)
#
# > **The paper:** smoothing makes the model less sure and its perplexity worse, but accuracy and BLEU better.

# %%
unsmoothed = small_model(label_smoothing=0.0)
compare(whole=curve_of_whole, without_label_smoothing=train(unsmoothed, SHORT))

# %% [markdown]
# How sure are both of the token that they find most probable, and how often are they right?


# %%
def confidence(model):
    """For all tokens of the validation set: the highest probability, and whether the token is right."""
    highest, is_right = [], []
    with torch.no_grad():
        for batch in validation_batches:
            probabilities = model(**batch).logits.softmax(-1)
            counts = batch["labels"] != -100
            best = probabilities.max(-1)
            highest.append(best.values[counts])
            is_right.append((best.indices == batch["labels"])[counts])
    return torch.cat(highest), torch.cat(is_right)


for name, model in (("with smoothing", small_whole), ("without", unsmoothed)):
    highest, is_right = confidence(model)
    plt.hist(highest.numpy(), bins=np.linspace(0, 1, 26), histtype="step", linewidth=2, label=name)
    print(f"{name:15} mean highest probability {highest.mean():.2f}, right {is_right.float().mean():.1%}")
plt.axvline(0.9 + 0.1 / V, color="0.6", linestyle="--", label="0.9 + 0.1/V")
plt.xlabel("highest probability of a position")
plt.ylabel("positions")
plt.legend()
plt.show()

# %% [markdown]
# Without smoothing, many probabilities come close to 1. With it, hardly any is above 0.96: where the right token is
# obvious, they cluster near 0.9 + 0.1/V, which is all that the loss asks for. After such a short training run, both
# are right about equally often; the paper's gain shows after a long one.
#
# **Exercise.** Leave out the residual connections instead. Which method of the package has to change?
#
# <details><summary>Answer</summary>
#
# `VaswaniLayer.residual`: put `output = dropout(output, …)` in place of the sum. Already with two layers, learning is
# much slower.
#
# </details>
