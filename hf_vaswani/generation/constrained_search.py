"""Beam search for the best translation that has given terms.

The beam is divided among hypotheses by how many tokens of their terms are missing (dynamic beam allocation; Post and
Vilar 2018), for all sentences of a batch at once (Hu et al. 2019): otherwise those without terms, which are more
probable, would leave no room for any that has them. Where there are more such groups than places, those papers keep
the ones with the fewest tokens missing, which puts terms too early; here, an estimate of their final scores decides.
A hypothesis that lacks a term cannot end before its length limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel, StoppingCriteriaList
from transformers.generation import GenerateBeamEncoderDecoderOutput

from ..core.generation_beam_search import LENGTH_PENALTY_TYPES, NEVER, BeamState, Scoring, pick
from ..core.generation_vaswani import BatchedDecoder, Recorder, VaswaniGenerationMixin
from .fast_beam_search import FastBeamSearch, UnfinishedSentences, top
from .mixin import MASKING_PROCESSORS, ROW_PROCESSORS, FastGenerationMixin, only, only_one
from .term_automaton import TermAutomata, TermAutomaton

# By how much each missing token is expected to reduce the log-probability of a hypothesis. Translations of Multi30k
# are about as good with 3 to 6.
TOKEN_COST = 4.0
# The same at the length limit: nothing counts more than what is missing. Much less than a missing hypothesis's score.
LARGEST_COST = 1e4
# Of the largest tables of a batch. A step needs some hundred bytes for each.
MOST_NUMBERS = 2**21
# Of a sentence: the states of its automata, and of each demand after each token that advances another one. Such a
# search takes seconds; with twice as many terms, it would take eight times as long.
MOST_STATES, MOST_ADVANCES = 2**14, 2**15


@dataclass
class ConstrainedState(BeamState):
    """The state of the search, with what its hypotheses lack."""

    automata: torch.Tensor  # (n, beams, demands) the states of their automata
    finished_unmet: torch.Tensor  # (n, beams) number of demands that finished hypotheses do not meet


class ConstrainedBeamSearch(FastBeamSearch):
    """[`FastBeamSearch`] among the hypotheses that have given terms.

    Where none of them fits within the length limit, the hypotheses that lack the fewest are returned.

    Args:
        automata: the automata for the terms of each sentence.
        options: the other arguments of [`FastBeamSearch`].
    """

    def __init__(self, decoder, automata: TermAutomata, scoring: Scoring, **options):
        super().__init__(decoder, scoring=replace(scoring, early_stopping=scoring.early_stopping or False), **options)
        self.automata = automata
        # Numbers of tokens that hypotheses of each sentence may lack.
        self.groups = automata.count_missing(automata.first) + 1

    def _start(self) -> ConstrainedState:
        start = super()._start()
        states = self.automata.first.unsqueeze(1).expand(-1, self.beams, -1)
        for tokens in self.prompt[:, 1:].unbind(1):
            states = self.automata.next(states, tokens.unsqueeze(1).expand(-1, self.beams))
        return ConstrainedState(
            **vars(start), automata=states, finished_unmet=torch.zeros_like(start.is_finished, dtype=torch.long)
        )

    def _step(self, state: ConstrainedState, states: torch.Tensor) -> torch.Tensor:
        scores, beams, tokens = self._continuations(state, states)
        order = self._share_out(state, scores, beams, tokens)[:, : self.candidates]
        scores, beams, tokens = (pick(tensor, order) for tensor in (scores, beams, tokens))
        rows = beams + state.numbers.unsqueeze(1) * self.beams
        paths = torch.cat([pick(state.paths, beams), torch.stack([tokens, rows], dim=-1).unsqueeze(2)], dim=2)
        automata = self.automata.next(pick(state.automata, beams), tokens)
        ends = self._ends(paths, tokens, state.limits)
        self._finish(state, paths, scores, ends, self.automata.count_missing_terms(automata))
        # In the order in which they were chosen, those that continue before those that end.
        chosen = ends.long().argsort(dim=1, stable=True)[:, : self.beams]
        kept = torch.where(ends, scores + NEVER, scores).gather(1, chosen)
        state.scores, best_first = kept.sort(dim=1, descending=True, stable=True)
        chosen = chosen.gather(1, best_first)
        state.paths, state.automata = pick(paths, chosen), pick(automata, chosen)
        self._close(state, ends)
        return pick(beams, chosen)

    def _continuations(
        self, state: ConstrainedState, states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Scores, hypotheses and new tokens `(n, continuations)`: the best of each hypothesis, all with which fewer
        tokens of its terms are missing, and the best that ends the last word of a term; those that are impossible, or
        counted twice, have a score of -inf."""
        if self.processors is not None:
            parts = [(states, state.paths[..., 0], state.scores, state.automata)]
        else:
            parts = zip(*map(self._parts, (states, state.paths[..., 0], state.scores, state.automata)))
        scores, tokens = map(torch.cat, zip(*(self._best_tokens(*part) for part in parts)))
        beams = torch.arange(self.beams, device=scores.device).view(1, -1, 1).expand(scores.shape)
        return scores.flatten(1), beams.flatten(1), tokens.flatten(1)

    def _best_tokens(
        self, states: torch.Tensor, sequences: torch.Tensor, scores: torch.Tensor, automata: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores and new tokens `(n, beams, continuations)` of each hypothesis, for some sentences."""
        logits = self.decoder.logits(states).float()
        log_probs = logits.log_softmax(-1).expand(-1, self.beams, -1)
        if self.processors is not None:
            shape = log_probs.shape
            log_probs = self.processors(sequences.flatten(0, 1), log_probs.flatten(0, 1)).view(shape)
        if self.eos_token_ids is not None:
            lacks = self.automata.count_missing(automata).unsqueeze(-1) > 0
            log_probs = log_probs.contiguous()
            log_probs[..., self.eos_token_ids] = log_probs[..., self.eos_token_ids].masked_fill(lacks, -torch.inf)
        rows = log_probs.flatten(0, 1).unsqueeze(1)
        # As many as can get a place in the beam, even if all ends are better.
        best, tokens = top(rows, rows.new_zeros(len(rows), 1), min(self.candidates - self.beams + 1, rows.shape[2]))
        best, tokens = (tensor.view(*scores.shape, -1) for tensor in (best, tokens))
        wanted = self._wanted(log_probs, automata).sort(dim=2).values
        is_known = (wanted.unsqueeze(3) == tokens.unsqueeze(2)).any(3) | (wanted < 0)
        is_known[..., 1:] |= wanted[..., 1:] == wanted[..., :-1]
        wanted = wanted.clamp(min=0)
        further = log_probs.gather(2, wanted).masked_fill(is_known, -torch.inf)
        return torch.cat([best, further], dim=2) + scores.unsqueeze(-1), torch.cat([tokens, wanted], dim=2)

    def _wanted(self, log_probs: torch.Tensor, automata: torch.Tensor) -> torch.Tensor:
        """Tokens that each hypothesis must be able to continue with, however improbable: `(n, beams, tokens)`.

        These are the ones with which fewer tokens are missing, and where a term may end, the best one after it; -1
        stands for none.
        """
        wanted = self.automata.advances[automata].flatten(2)
        ending = torch.full_like(wanted[..., :1], -1)
        is_pending = self.automata.is_pending[automata].any(2)
        if is_pending.any():
            begins_word = self.automata.begins_word
            allowed = log_probs[is_pending][:, : len(begins_word)].masked_fill(~begins_word, -torch.inf)
            ending[is_pending] = allowed.argmax(1, keepdim=True)
        return torch.cat([wanted, ending], dim=2)

    def _share_out(
        self, state: ConstrainedState, scores: torch.Tensor, beams: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """The order in which continuations get a place in the beam, `(n, continuations)`.

        In each turn, it is the best one left of those with as many tokens missing. The first place is for the fewest
        missing, so that terms get their places even if they are very improbable; then, the best estimates come first.
        Those that end take no turn.
        """
        is_possible, missing = scores > NEVER / 2, torch.zeros_like(tokens)
        rows = is_possible.nonzero()[:, 0]
        after = self.automata.next(state.automata[rows, beams[is_possible]], tokens[is_possible])
        missing[is_possible] = self.automata.count_missing(after)
        is_last = (state.limits <= state.paths.shape[2] + 1).unsqueeze(1)
        order = (scores - torch.where(is_last, LARGEST_COST, TOKEN_COST) * missing).argsort(
            dim=1, descending=True, stable=True
        )
        missing, tokens, is_possible = (tensor.gather(1, order) for tensor in (missing, tokens, is_possible))
        is_running = torch.ones_like(missing)
        if self.eos_token_ids is not None:
            is_running -= torch.isin(tokens, self.eos_token_ids).long()
        groups = missing.argsort(dim=1, stable=True)
        before = is_running.gather(1, groups).cumsum(1) - is_running.gather(1, groups)
        is_first = missing.gather(1, groups).diff(dim=1, prepend=missing.new_full((len(missing), 1), -1)) != 0
        turn = torch.empty_like(missing).scatter_(1, groups, before - (before * is_first).cummax(1).values)
        fewest = missing.masked_fill(~is_possible | (is_running == 0), torch.iinfo(missing.dtype).max).argmin(1)
        turn[torch.arange(len(turn), device=turn.device), fewest] = -1
        # At the length limit, all end.
        turn = turn.masked_fill(is_last, 0).masked_fill(~is_possible, turn.shape[1])
        return order.gather(1, turn.argsort(dim=1, stable=True))

    def _close(self, state: ConstrainedState, ends: torch.Tensor) -> dict[str, torch.Tensor]:
        reasons = super()._close(state, ends)
        if self.scoring.early_stopping != "never":
            # Only that share of the beam that hypotheses with all terms get must be full.
            last = (self.beams // self.groups[state.numbers]).clamp(min=self.n_best).unsqueeze(1) - 1
            length = state.paths.shape[2] - self.prompt.shape[1]
            may_enter = state.scores[:, :1] / self.scoring.penalty(length) > state.finished_scores.gather(1, last)
            reasons["share_settled"] = (state.is_finished.gather(1, last) & ~may_enter).squeeze(1)
            state.is_open &= ~reasons["share_settled"]
        return reasons

    def _finish(
        self,
        state: ConstrainedState,
        paths: torch.Tensor,
        scores: torch.Tensor,
        ends: torch.Tensor,
        unmet: torch.Tensor,
    ) -> None:
        """Add continuations that end to the finished hypotheses, first those that meet most of their demands."""
        paths, scores, unmet = paths[:, : self.beams], scores[:, : self.beams], unmet[:, : self.beams]
        ends = ends[:, : self.beams] & state.is_open.unsqueeze(1) & (scores > NEVER / 2)
        if not ends.any():
            return
        length = paths.shape[2] - self.prompt.shape[1]
        scores = torch.cat([state.finished_scores, torch.where(ends, scores / self.scoring.penalty(length), NEVER)], 1)
        unmet = torch.cat([state.finished_unmet, unmet.masked_fill(~ends, 0)], 1)
        is_finished = torch.cat([state.is_finished, ends], dim=1)
        chosen = scores.argsort(dim=1, descending=True, stable=True)
        key = (~is_finished * (unmet.max() + 1) + unmet).gather(1, chosen)
        chosen = chosen.gather(1, key.argsort(dim=1, stable=True))[:, : self.beams]
        paths = torch.cat([self._padded(state.finished_paths, paths.shape[2]), paths], dim=1)
        state.finished_scores, state.finished_unmet = scores.gather(1, chosen), unmet.gather(1, chosen)
        state.is_finished, state.finished_paths = is_finished.gather(1, chosen), pick(paths, chosen)


@dataclass(frozen=True)
class SearchSize:
    """How large the tables of a search are: for a batch, the sum of its sentences.

    Attributes:
        sentences: the number of sentences.
        demands: the number of demands of a sentence.
        states: the number of states of all automata.
        width: the number of tokens after which fewer are missing in a state.
    """

    sentences: int
    demands: int
    states: int
    width: int

    @classmethod
    def of(cls, automata: Sequence[TermAutomaton]) -> "SearchSize":
        """The size of a sentence, from the automata of its terms."""
        states = sum(len(automaton.missing) for automaton in automata)
        return cls(1, len(automata), states, max(automaton.width for automaton in automata))

    def __add__(self, other: "SearchSize") -> "SearchSize":
        width, demands = max(self.width, other.width), max(self.demands, other.demands)
        return SearchSize(self.sentences + other.sentences, demands, self.states + other.states, width)

    def is_possible(self) -> bool:
        """Whether a sentence can be searched."""
        return self.states <= MOST_STATES and self.demands**2 * self.width <= MOST_ADVANCES

    def fits(self, beams: int) -> bool:
        """Whether the sentences can be searched together."""
        # In each step, the state of each demand after each continuation; and the tokens for each state.
        continuations = self.sentences * beams * (beams + 2 + self.demands * self.width)
        return max(continuations * self.demands, self.states * self.width) <= MOST_NUMBERS


def search_with_terms(
    model: PreTrainedModel,
    input_ids: torch.LongTensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    automata: TermAutomata,
    **model_kwargs,
) -> GenerateBeamEncoderDecoderOutput | torch.LongTensor:
    """Beam search with terms, for any encoder-decoder: `generate(custom_generate=partial(search_with_terms, …))`.

    Args:
        automata: the automata for the terms of each sentence of the batch; `generate()` passes the rest.
    """
    config, beams = generation_config, generation_config.num_beams
    for name, default in (("length_penalty_type", LENGTH_PENALTY_TYPES[0]), ("max_length_offset", None)):
        if not hasattr(config, name):  # in other families
            setattr(config, name, default)
    if isinstance(model, FastGenerationMixin) and model._can_share_source(config, model_kwargs):
        decoder = model._shared_source(input_ids, model_kwargs, beams)
    else:
        decoder = BatchedDecoder(model, input_ids, model_kwargs, beams)
    options = VaswaniGenerationMixin._search_options(
        input_ids, logits_processor, stopping_criteria, config, Recorder(config)
    )
    search = ConstrainedBeamSearch(
        decoder,
        automata,
        **options,
        log_probs_fall=only(MASKING_PROCESSORS, logits_processor),
        sentences_may_leave=not options["criteria"] and only(ROW_PROCESSORS, logits_processor),
        unfinished=only_one(UnfinishedSentences, stopping_criteria),
    )
    output = search.run()
    if not config.return_dict_in_generate:
        return output.sequences
    return GenerateBeamEncoderDecoderOutput(output.sequences, sequences_scores=output.scores, beam_indices=output.rows)
