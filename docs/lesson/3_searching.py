# %% [markdown]
# # 3. Searching
#
# The model gives probabilities for the next token. A translation has many tokens, so we have to search for a good
# one. This notebook uses the model that the second one trains, so run that first.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from transformers import AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from hf_vaswani import VaswaniForConditionalGeneration

disable_progress_bar()
if not Path("lesson_model").is_dir():
    raise SystemExit("There is no folder lesson_model here: run 2_training.ipynb first.")
model = VaswaniForConditionalGeneration.from_pretrained("lesson_model").eval()
tokenizer = AutoTokenizer.from_pretrained("lesson_model")
plt.rcParams.update({"figure.dpi": 80, "figure.figsize": (6.4, 3.4), "figure.constrained_layout.use": True})

# %% [markdown]
# ## One token after another (section 3.1)
#
# > **The paper:** the decoder is auto-regressive. What it has written so far is part of the input for the next token.
#
# Greedy search takes the most probable token, again and again, until it is `</s>`. A short loop does it:

# %%
from hf_vaswani.evaluation.score import bleu

source = "Die Lehrerin hat das rote Hemd gekauft."
inputs = tokenizer([source], return_tensors="pt")
output_ids = torch.tensor([[model.config.decoder_start_token_id]])
with torch.no_grad():
    while output_ids[0, -1] != tokenizer.eos_token_id and output_ids.shape[1] < 20:
        probabilities = model(**inputs, decoder_input_ids=output_ids).logits[0, -1].softmax(-1)  # (V,)
        best = probabilities.topk(3)
        shown = [
            f"{token} {p:.2f}" for token, p in zip(tokenizer.convert_ids_to_tokens(best.indices.tolist()), best.values)
        ]
        print(f"{output_ids.shape[1]:2}  {'   '.join(shown)}")
        output_ids = torch.cat([output_ids, best.indices[None, :1]], dim=1)

greedy = model.generate(**inputs, num_beams=1, max_new_tokens=19)
print("the same as generate():", torch.equal(greedy, output_ids))
print(tokenizer.decode(output_ids[0], skip_special_tokens=True))

# %% [markdown]
# ## Beam search (section 6.1)
#
# *In the package:* `BeamSearch` in `hf_vaswani/core/generation_beam_search.py`
#
# > **The paper:** a beam of 4 and a length penalty with α = 0.6.
#
# A token that looks best now may lead nowhere good. So beam search follows several hypotheses at once. A step looks at
# the best next tokens of all of them and keeps the best sums of log-probabilities. `beam_tree` watches the search that
# `generate()` performs (`hf_vaswani/evaluation/beam_tree.py`). First with a beam of two:

# %%
from hf_vaswani.evaluation.beam_tree import beam_tree

PAPER = {"length_penalty": 0.6, "length_penalty_type": "gnmt", "max_new_tokens": 30}
tree = beam_tree(model, tokenizer, source, num_beams=2, **PAPER)
tree

# %% [markdown]
# Read it from left to right. Each column is a step, its candidates one below the other, best first: four of them,
# twice the beam. The best two that haven't ended are kept. A candidate that ends (`</s>`) is finished if it is among
# the best two. Step by step, in numbers:

# %%
for step in tree.steps[:3]:
    print(f"step {step.number}")
    for candidate in (tree.candidates[number] for number in step.candidates):
        hypothesis = " ".join(part.token for part in tree.path(candidate))
        print(f"   {candidate.score:7.3f} = … {candidate.log_probability:+.3f}   {candidate.fate:8}   {hypothesis}")

# %% [markdown]
# The sum belongs to the whole hypothesis: each token adds its log-probability, which is negative. Now the beam of the
# paper, and the four best hypotheses:

# %%
tree = beam_tree(model, tokenizer, source, num_beams=4, num_return_sequences=4, **PAPER)
tree

# %% [markdown]
# ## The length penalty (section 6.1)
#
# *In the package:* `Scoring.penalty` in `hf_vaswani/core/generation_beam_search.py`
#
# Every token makes the sum smaller, so plain sums favor short outputs. Finished hypotheses are therefore compared by
# their sum divided by ((5 + length) / 6)^α, where the length counts `</s>`:

# %%
from hf_vaswani.core.generation_beam_search import Scoring

scoring = Scoring(length_penalty=0.6, length_penalty_type="gnmt")
print("rank  length     sum   penalty   quotient")
for candidate in tree.ranking:
    length = len(tree.path(candidate))
    penalty = ((5 + length) / 6) ** 0.6
    assert abs(penalty - scoring.penalty(length)) < 1e-9
    numbers = (
        f"{candidate.rank:4}  {length:6}  {candidate.score:6.3f}  {penalty:8.3f}  {candidate.score / penalty:9.3f}"
    )
    print(numbers, " ", tokenizer.decode(tree.output_ids(candidate), skip_special_tokens=True))

# %% [markdown]
# The model, trained for only a few minutes, finds a wrong verb most probable, and the right translation comes second,
# one token longer. A stronger penalty on short outputs is enough to change the order. The same four
# hypotheses with other α:

# %%
for alpha in (0, 0.6, 1, 2):
    scoring = Scoring(length_penalty=alpha, length_penalty_type="gnmt")
    plt.plot(range(1, 31), [scoring.penalty(length) for length in range(1, 31)], label=f"α = {alpha}")
    quotients = {candidate: candidate.score / scoring.penalty(candidate.step) for candidate in tree.ranking}
    best = max(quotients, key=quotients.get)
    text = tokenizer.decode(tree.output_ids(best), skip_special_tokens=True)
    print(f"α = {alpha}: {quotients[best]:.3f}  {text}")
plt.xlabel("length in tokens")
plt.ylabel("the sum is divided by")
plt.legend()
plt.show()

# %% [markdown]
# **Exercise.** Of two finished hypotheses, one has 4 tokens and the sum −2.0, the other 10 tokens and −2.4. Which one
# wins with α 0, which one with 0.6?
#
# <details><summary>Answer</summary>
#
# With α 0 the first, −2.0 against −2.4. With α 0.6 the second: −2.4 / 1.73 = −1.39 against −2.0 / 1.28 = −1.57.
#
# </details>
#
# ## When can the search stop?
#
# A finished hypothesis is no reason to stop: a running one may still beat it. But a running sum can only fall. The
# best that the best running hypothesis can hope for is its sum so far, divided by the penalty of the longest length.
# Once that is below all finished scores that will be returned, nothing can change. With `early_stopping=False`, the
# default of transformers, the search already ends when it has as many finished hypotheses as beams and no running one
# would beat the worst of them if it ended now.

# %%
for step in tree.steps:
    if step.reachable is None:
        break  # nothing runs any more
    worst = tree.candidates[step.finished[-1]].penalized_score if len(step.finished) == 4 else None
    finished = "fewer than four finished" if worst is None else f"fourth best finished {worst:.3f}"
    print(f"step {step.number:2}: {finished}; a running one could reach {step.reachable:.3f}")
print(f"\nThe search stopped because {tree.stop_reason}.")

# %% [markdown]
# ## How large a beam?
#
# *In the package:* `bleu` in `hf_vaswani/evaluation/score.py`, which is sacreBLEU
#
# A larger beam finds hypotheses with better scores. Whether they are better translations is another question.

# %%
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs
from hf_vaswani.generation.output_scores import log_probabilities, output_lengths

test = TextSource.parse({"dataset": "built-in", "split": "test"}, "the lesson's text")
pairs = [pair for pair in iterate_pairs(test, ("de", "en")) if len(pair[0].split()) <= 8]
pairs = pairs[: int(os.environ.get("LESSON_STEPS", 150))]
batch = tokenizer([source for source, _ in pairs], padding=True, return_tensors="pt")
scoring = Scoring(length_penalty=0.6, length_penalty_type="gnmt")
print("beam   mean score    BLEU")
for beams in (1, 2, 4, 8):
    settings = PAPER if beams > 1 else {"max_new_tokens": 30}
    output_ids = model.generate(**batch, num_beams=beams, **settings)
    texts = tokenizer.batch_decode(output_ids, skip_special_tokens=True)
    lengths = output_lengths(output_ids, [tokenizer.eos_token_id], tokenizer.pad_token_id)
    sums = log_probabilities(model, batch, output_ids, lengths)
    mean_score = (sums / scoring.penalty(lengths - 1)).mean()  # without the decoder's start
    print(f"{beams:4}  {mean_score:11.4f}  {bleu(texts, [target for _, target in pairs]).value:6.2f}")

# %% [markdown]
# **Exercise.** Draw the tree of another sentence, with `early_stopping=True` or a beam of 8. On the command line:
# `hf-vaswani beam-tree lesson_model --text "Ich schlafe." --output tree.html`
