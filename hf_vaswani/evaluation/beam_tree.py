"""Records the tree of a beam search over one text: the candidates of each step, their scores, and what became of them.

The tree comes from `generate()` itself, not from a second search; see `generation/fast_beam_search.py`. Figures of
a tree are drawn by `beam_tree_figure.py`.
"""

from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.generation_beam_search import NEVER
from ..errors import InputError
from ..generation.alignment import to_tokens
from ..generation.fast_beam_search import SearchObserver, SearchStep
from ..generation.settings import GenerateArguments
from ..text.inputs import check_text
from ..text.normalization import normalized
from ..text.token_spans import readable_tokens
from .attention import check_token_count, text_errors
from .beam_tree_figure import BeamCandidate, BeamStep, BeamTree

# Reasons why a search ended, the most informative one first.
STOP_REASONS = {
    "all_ended": "all candidates ended here, by an end token or at the longest length",
    "full": "there were as many finished hypotheses as beams, and early_stopping=True needs no more",
    "settled": "there were as many finished hypotheses as beams, and the best running one did not score better than "
    "the worst of them",
    "decided": "no running hypothesis could still score better than the finished ones that were requested",
}
GREEDY_END = "greedy search ends with its first hypothesis"
# The search pads its tensors with candidates that do not exist; they score lower than this.
HIGHEST_IMPOSSIBLE = NEVER / 2


def beam_tree(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, **generate_kwargs) -> BeamTree:
    """Translate a text and record the whole search.

    Args:
        model: a model of this package, in evaluation mode.
        text: as the model reads it, with its prefix if it needs one.
        generate_kwargs: arguments of `generate()`, such as `num_beams=4, length_penalty=0.6`; by default the
            model's. Only the first `num_return_sequences` ranks are certain: the search ends once no other hypothesis
            can reach them.

    Raises:
        InputError: the text is empty or too long, the model is not from this package, or the settings ask for sampling
            or for a search that cannot be recorded.
        ValueError: the text is not a string, or a setting is invalid.
    """
    check_text("text", text)
    if errors := text_errors(text, None) + search_errors(model, generate_kwargs):
        raise InputError.of(errors)
    inputs = tokenizer([normalized(text, tokenizer)], return_tensors="pt").to(model.device)
    check_token_count(model.get_encoder(), inputs["input_ids"], "text")
    inputs.pop("token_type_ids", None)
    observer = SearchObserver()
    criteria = [*(generate_kwargs.pop("stopping_criteria", None) or []), observer]
    model.generate(**inputs, **generate_kwargs, stopping_criteria=criteria)
    if not observer.steps:
        raise InputError(
            "With these settings, generate() does not use this package's search, so nothing was recorded. Leave out "
            "assistants, streamers, recorded scores, and logits processors and stopping criteria of your own."
        )
    return _tree(tokenizer, text, inputs["input_ids"][0].tolist(), observer.steps)


def search_errors(model: PreTrainedModel, generate_kwargs: dict[str, Any]) -> list[str]:
    """Errors that say why a model's search cannot be recorded."""
    if not getattr(model, "shows_its_search", False):
        name = type(model).__name__
        remedy = "Use the original model" if hasattr(model, "engine_name") else "Convert it with hf-vaswani import"
        return [f"The search of a {name} cannot be recorded. {remedy}."]
    if GenerateArguments(model, generate_kwargs, {}).get("do_sample"):
        return ["Sampling draws tokens at random, so there is no search tree. Pass do_sample=False."]
    return []


def _tree(
    tokenizer: PreTrainedTokenizerBase, source: str, source_ids: list[int], observed: list[SearchStep]
) -> BeamTree:
    last = observed[-1]
    prompt_ids = last.finished_paths[0, 0, : last.prompt_length, 0].tolist()
    candidates, steps = _read(tokenizer, observed)
    ranks = {number: rank for rank, number in enumerate(steps[-1].finished, start=1)}
    candidates = [replace(candidate, rank=ranks.get(candidate.number)) for candidate in candidates]
    is_greedy = _beams(last) == 1
    tree = BeamTree(
        source=source,
        source_tokens=_tokens(tokenizer, source_ids),
        prompt_tokens=_tokens(tokenizer, prompt_ids, is_target=True),
        prompt_ids=tuple(prompt_ids),
        candidates=tuple(candidates),
        steps=tuple(steps),
        stop_reason=GREEDY_END if is_greedy else _stop_reason(last),
        translation="",
        num_beams=_beams(last),
        scoring=None if is_greedy else last.scoring,
    )
    ids = tree.output_ids(tree.best) if tree.ranking else ()
    return replace(tree, translation=tokenizer.decode(list(ids[1:]), skip_special_tokens=True))


def _read(
    tokenizer: PreTrainedTokenizerBase, observed: list[SearchStep]
) -> tuple[list[BeamCandidate], list[BeamStep]]:
    """The candidates and steps of a search, from what was observed of its only sentence."""
    candidates: list[BeamCandidate] = []
    steps: list[BeamStep] = []
    hypotheses: list[int | None] = [None] * _beams(observed[0])
    numbers: dict[tuple[int, ...], int] = {}  # of finished hypotheses, by their tokens
    tokens: list[tuple[int, ...]] = []  # of all candidates
    for step_number, step in enumerate(observed, start=1):
        columns = (step.parents, step.tokens, step.log_probs, step.scores, step.ends)
        rows = list(zip(*(column[0].tolist() for column in columns)))
        names = _tokens(tokenizer, [token_id for _, token_id, *_ in rows], is_target=True)
        chosen, of_step = step.chosen[0].tolist(), {}
        for place, (parent_place, token_id, log_probability, score, is_end) in enumerate(rows):
            if score <= HIGHEST_IMPOSSIBLE:
                continue
            number, parent = len(candidates), hypotheses[parent_place]
            before = candidates[parent].score if parent is not None else 0.0
            is_finished = is_end and place < len(chosen)
            fate = "finished" if is_finished else "kept" if place in chosen and not is_end else "pruned"
            is_greedy = len(chosen) == 1
            candidate = BeamCandidate(
                number,
                step_number,
                parent,
                token_id,
                names[place],
                log_probability,
                # Greedy search does not keep sums.
                before + log_probability if is_greedy else score,
                fate,
                is_end,
                score / step.penalty if is_finished and not is_greedy else None,
            )
            candidates.append(candidate)
            tokens.append((*(tokens[parent] if parent is not None else ()), token_id))
            of_step[place] = number
            if is_finished:
                numbers[tokens[-1]] = number
        # With fewer candidates than beams, some beams hold hypotheses that do not exist.
        hypotheses = [of_step.get(place) for place in chosen]
        finished = _finished(step, numbers)
        is_running = any(number is not None for number in hypotheses) and not bool(step.ends[0].all())
        reachable = step.reachable[0].item() if is_running and len(chosen) > 1 else None
        steps.append(BeamStep(step_number, tuple(of_step.values()), finished, reachable))
    return candidates, steps


def _finished(step: SearchStep, numbers: dict[tuple[int, ...], int]) -> tuple[int, ...]:
    """Numbers of the finished hypotheses after a step, best first."""
    found = []
    for path, is_finished in zip(step.finished_paths[0, :, step.prompt_length :], step.is_finished[0].tolist()):
        number = numbers.get(tuple(path[path[:, 1] >= 0, 0].tolist()))
        if is_finished and number is not None and number not in found:
            found.append(number)
    return tuple(found)


def _beams(step: SearchStep) -> int:
    return step.chosen.shape[1]


def _stop_reason(step: SearchStep) -> str:
    """The most informative of the reasons that hold."""
    return next(text for name, text in STOP_REASONS.items() if name in step.reasons and bool(step.reasons[name][0]))


def _tokens(tokenizer: PreTrainedTokenizerBase, token_ids: list[int], is_target: bool = False) -> tuple[str, ...]:
    return tuple(readable_tokens(tokenizer, to_tokens(tokenizer, token_ids, is_target)))
