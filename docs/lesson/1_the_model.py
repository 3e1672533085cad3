# %% [markdown]
# # 1. The model
#
# This lesson takes the Transformer of ["Attention Is All You Need"](https://arxiv.org/abs/1706.03762) apart, trains
# it, and watches it search for a translation. Read it from top to bottom. Each section names the section of the paper
# that it explains and the function of this package that implements it, and shows the shapes of its tensors.
#
# This first notebook trains nothing: it follows one sentence through a model whose weights are still random.
#
# Shapes are written as `(batch, length, d_model)`: sentences, tokens in each sentence, numbers for each token.

# %%
import math

import matplotlib.pyplot as plt
import torch

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration, preset

plt.rcParams.update({"figure.dpi": 80, "figure.figsize": (6, 3.2)})
torch.set_printoptions(precision=4, sci_mode=False)

# %% [markdown]
# ## Text becomes tokens (section 5.1)
#
# *In the package:* `train_tokenizer` in `hf_vaswani/data/tokenizers/tokenizer.py`
#
# A model reads numbers. Byte-pair encoding makes a vocabulary from the training text: frequent words become one token,
# rare ones are put together from pieces. German and English share one vocabulary, as in the paper. `▁` is the space
# before a word, and `</s>` ends each sentence.

# %%
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer

corpus = TextSource.parse({"dataset": "built-in", "split": "train"}, "the lesson's text")
pairs = list(iterate_pairs(corpus, ("de", "en")))
tokenizer = train_tokenizer(pairs, TokenizerArguments(vocab_size=1000))

sentence = "Sonntags rufe ich meinen Bruder an."
inputs = tokenizer([sentence], return_tensors="pt")
print(len(pairs), "pairs, of which the first is", pairs[0])
print(tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist()))
print(inputs["input_ids"], tuple(inputs["input_ids"].shape))

# %% [markdown]
# **Exercise.** Encode a word that the corpus does not have, such as `"Quantencomputer"`. What happens?
#
# <details><summary>Answer</summary>
#
# It is cut into many short pieces, down to single letters. Characters that the training text never had become `<unk>`.
#
# </details>

# %% [markdown]
# ## Embeddings (section 3.4)
#
# *In the package:* `VaswaniStack.embed` in `hf_vaswani/core/modeling_vaswani.py`
#
# Each token id picks a row of a matrix: its embedding, a vector of `d_model` numbers. The model below is a small one.
# The paper's has `d_model` 512, six layers, and eight heads.

# %%
torch.manual_seed(0)
config = VaswaniConfig(
    vocab_size=len(tokenizer),
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=256,
    decoder_ffn_dim=256,
)
model = VaswaniForConditionalGeneration(config).eval()  # eval: without dropout
encoder, decoder = model.get_encoder(), model.get_decoder()

matrix = encoder.embed_tokens.weight
print("embedding matrix", tuple(matrix.shape))
print("one matrix for source, target, and output:", matrix is decoder.embed_tokens.weight is model.lm_head.weight)
embeddings = encoder.embed_tokens(inputs["input_ids"])
print("embeddings of the sentence", tuple(embeddings.shape))

# %% [markdown]
# The same matrix serves three times: for the source, for the target, and at the end to turn states into scores of
# words. Embeddings are multiplied by √d_model. Their entries start near 1/√d_model, so they are near 1 afterward,
# as large as the positions that are added next.

# %%
print(f"standard deviation {embeddings.std():.3f}, times sqrt(d_model) {(embeddings * math.sqrt(64)).std():.3f}")

# %% [markdown]
# ## Positions (section 3.5)
#
# *In the package:* `sinusoidal_positions` in `hf_vaswani/core/modeling_layers.py`
#
# > PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))
#
# Attention by itself does not know the order of words. So each position gets a vector of its own, made from waves of
# different lengths. For `d_model` 4, position 2 is:

# %%
from hf_vaswani.core.modeling_layers import sinusoidal_positions

print(sinusoidal_positions(torch.tensor(2), 4))
print([round(f(2 / 10000 ** (i / 4)), 4) for i in (0, 2) for f in (math.sin, math.cos)], "by the formula")

# %%
positions = sinusoidal_positions(torch.arange(40), 64)  # (40, 64)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.imshow(positions.T, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
left.set(xlabel="position", ylabel="dimension", title="each column is the vector of a position")
for start in (5, 15, 25):
    right.plot(range(40), positions @ positions[start], label=f"with position {start}")
right.set(xlabel="position", title="dot product of two positions")
right.legend(fontsize=8)
plt.show()

# %% [markdown]
# Left: fast waves at the top, slow ones at the bottom. Right: the dot product of two positions depends only on
# their distance: all three curves have the same shape. That makes it easy for a head to look at "the word before".
#
# What the encoder's first layer reads is the sum of both:

# %%
states = embeddings * math.sqrt(config.d_model) + sinusoidal_positions(torch.arange(embeddings.shape[1]), 64)
print(torch.allclose(states.float(), encoder.embed(inputs["input_ids"], None), atol=1e-6), tuple(states.shape))

# %% [markdown]
# ## Attention (section 3.2.1)
#
# *In the package:* `scaled_dot_product_attention` in `hf_vaswani/core/modeling_layers.py`
#
# > Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V
#
# A query asks, keys answer, and the result is the mean of the values, weighted by how well their keys match the query.
# By hand, for the query [1, 0], two keys, and two values:

# %%
from hf_vaswani.core.modeling_layers import scaled_dot_product_attention

query = torch.tensor([[1.0, 0.0]])  # (queries, d_k)
key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # (keys, d_k)
value = torch.tensor([[2.0, 1.0], [0.0, 3.0]])  # (keys, d_v)

scores = query @ key.T / math.sqrt(2)
weights = scores.softmax(-1)
print("scores", scores, "\nweights", weights, "\nresult", weights @ value)

with_batch_and_heads = [tensor[None, None] for tensor in (query, key, value)]
attention = encoder.layers[0].self_attn  # says whether a mask is needed: not in an encoder
result, _ = scaled_dot_product_attention(attention, *with_batch_and_heads, attention_mask=None)
print("by the package", result.flatten())

# %% [markdown]
# ### Why divide by √d_k?
#
# The dot product of two random vectors of `d_k` numbers has a standard deviation of √d_k. Without the division, scores
# of wide heads are so large that the softmax puts nearly all weight on one key, and its gradient vanishes:

# %%
torch.manual_seed(0)
print("  d_k   largest of 10 weights: with / without the division")
for d_k in (4, 64, 512):
    queries, keys = torch.randn(1000, 1, d_k), torch.randn(1000, d_k, 10)
    products = queries @ keys
    with_, without = ((products * scale).softmax(-1).amax(-1).mean().item() for scale in (d_k**-0.5, 1))
    print(f"{d_k:5}   {with_:.2f} / {without:.2f}")

# %% [markdown]
# The next notebook trains a model without the division.

# %% [markdown]
# ## Several heads (section 3.2.2)
#
# *In the package:* `VaswaniAttention`, `split_heads` in `hf_vaswani/core/modeling_layers.py`
#
# One attention can look at one thing. The model has several heads, each with projections of its own to a smaller
# width, here 64 / 4 = 16. All heads are computed at once: one projection, cut into four.

# %%
from hf_vaswani.core.modeling_layers import split_heads

states = encoder.embed(inputs["input_ids"], None)  # (1, length, 64)
queries, keys, values = (
    split_heads(projection(states), 16) for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
)
print("states", tuple(states.shape), "→ queries of four heads", tuple(queries.shape))
weights = (queries @ keys.transpose(-1, -2) / math.sqrt(16)).softmax(-1)
print("weights", tuple(weights.shape), "; each row sums to 1:", bool((weights.sum(-1) - 1).abs().max() < 1e-5))
heads = (weights @ values).transpose(1, 2).flatten(2)
by_hand = attention.out_proj(heads)
print("the same as the module:", torch.allclose(by_hand, attention(states)[0], atol=1e-5), tuple(by_hand.shape))

# %% [markdown]
# ## Masks (section 3.2.3)
#
# *In the package:* `VaswaniDecoder.forward` in `hf_vaswani/core/modeling_vaswani.py`
#
# The decoder writes from left to right. In training it sees the whole translation at once, so it must be kept from
# looking ahead: position i may look at positions up to i. For four tokens (1: may look):

# %%
print(torch.ones(4, 4).tril().int())

# %% [markdown]
# Scores where it may not look become −∞ before the softmax, so their weights become 0. Here are the weights of the
# first decoder layer for a translation of four tokens, and a test: changing the last word changes nothing before it.

# %%
from hf_vaswani.generation.alignment import forced_attentions

labels = tokenizer(text_target=["I call my"], return_tensors="pt")["input_ids"]
output_ids = torch.cat([torch.tensor([[config.decoder_start_token_id]]), labels], dim=1)
print(forced_attentions(model, inputs, output_ids).decoder[0, 0, 0])  # of sentence 0, layer 0, head 0

with torch.no_grad():
    first = model(**inputs, decoder_input_ids=output_ids).logits
    output_ids[0, -1] = 99
    second = model(**inputs, decoder_input_ids=output_ids).logits
print("difference at each position:", (first - second).abs().amax(-1)[0])

# %% [markdown]
# The other mask is for padding. Sentences of a batch have different lengths; short ones are filled with `<pad>`, which
# no token may look at:

# %%
batch = tokenizer([sentence, "Ich schlafe."], padding=True, return_tensors="pt")
print(batch["attention_mask"])
print(forced_attentions(model, batch, output_ids.repeat(2, 1)).encoder[1, 0, 0].sum(0), "looks received by each token")

# %% [markdown]
# ## Feed-forward networks (section 3.3)
#
# *In the package:* `VaswaniLayer.feed_forward` in `hf_vaswani/core/modeling_layers.py`
#
# > FFN(x) = max(0, x W₁ + b₁) W₂ + b₂
#
# Attention moves information between tokens. The feed-forward network then works on each token alone.

# %%
layer = encoder.layers[0]
inner = torch.relu(states @ layer.fc1.weight.T + layer.fc1.bias)
by_hand = inner @ layer.fc2.weight.T + layer.fc2.bias
print(torch.allclose(by_hand, layer.feed_forward(states), atol=1e-5), tuple(inner.shape), "→", tuple(by_hand.shape))

# %% [markdown]
# ## Layers (section 3.1)
#
# *In the package:* `VaswaniLayer.residual`, `VaswaniEncoderLayer`, and `VaswaniDecoderLayer` in
# `hf_vaswani/core/modeling_layers.py`
#
# > LayerNorm(x + Sublayer(x))
#
# The output of a sublayer is added to its input, and the sum is normalized. An encoder layer is attention followed by
# a feed-forward network; a decoder layer also has attention to the encoder's output between the two.

# %%
attended = layer.self_attn_layer_norm(states + attention(states)[0])
by_hand = layer.final_layer_norm(attended + layer.feed_forward(attended))
print("the same as the layer:", torch.allclose(by_hand, layer(states, None), atol=1e-5))
mean, variance = by_hand[0, 0].mean(), by_hand[0, 0].var(correction=0)
print(f"mean and variance of a token's numbers: {mean:.2f} and {variance:.2f}")

# %% [markdown]
# Layer by layer, the shape stays the same. So any number of layers can be stacked:

# %%
with torch.no_grad():
    outputs = model(**inputs, labels=labels, output_hidden_states=True)
for name in ("encoder_hidden_states", "decoder_hidden_states"):
    print(name, [tuple(state.shape) for state in getattr(outputs, name)])

# %% [markdown]
# ## From states to words (section 3.4)
#
# *In the package:* `VaswaniForConditionalGeneration.forward` in `hf_vaswani/core/modeling_vaswani.py`
#
# The decoder's last states are compared with all embeddings: the dot products are the logits, and their softmax gives
# a probability for each token of the vocabulary.

# %%
logits = outputs.decoder_hidden_states[-1] @ matrix.T
print(torch.allclose(logits, outputs.logits, atol=1e-4), tuple(logits.shape))
probabilities = logits.softmax(-1)
right = probabilities[0].gather(1, labels[0].unsqueeze(1)).squeeze(1).detach()
print("probability of the right tokens:", right, "; by chance", 1 / len(tokenizer))

# %% [markdown]
# The untrained model knows nothing. The next notebook trains it.
#
# ## How large is it? (section 6.2, table 3)
#
# *In the package:* `preset` in `hf_vaswani/presets.py`

# %%
with torch.device("meta"):  # shapes alone, no memory
    for name in ("base", "big"):
        paper = VaswaniForConditionalGeneration(preset(name, vocab_size=37000))
        print(f"{name}: {paper.num_parameters():,} parameters")
print(f"this lesson's: {model.num_parameters():,} parameters")

# %% [markdown]
# **Exercise.** Do more heads need more parameters?
#
# <details><summary>Answer</summary>
#
# No. With h heads of width d_model / h, the projections keep their shape, `(d_model, d_model)`. Try
# `encoder_attention_heads=8` in the config and count again.
#
# </details>
