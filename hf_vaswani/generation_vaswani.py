"""Generation as the paper does it, on top of transformers' `generate()`.

Section 6.1 sets the maximum output length to the input length plus 50. Without that rule `generate()` would stop
after 20 tokens unless told otherwise.
"""

import copy

from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin, QuantizedCache

MAX_TOKENS_OVER_SOURCE = 50
STATIC_CACHES = ("static", "offloaded_static", "sliding_window", "hybrid")


class VaswaniGenerationMixin(GenerationMixin):
    """transformers' `generate()` with the paper's output length where the caller gives none (section 6.1)."""

    length_follows_source = True

    def _prepare_generated_length(
        self,
        generation_config,
        has_default_max_length,
        has_default_min_length,
        model_input_name,
        input_ids_length,
        inputs_tensor,
    ):
        if has_default_max_length and generation_config.max_new_tokens is None:
            max_new_tokens = inputs_tensor.shape[1] + MAX_TOKENS_OVER_SOURCE
            if self.config.position_type == "learned":
                max_new_tokens = min(max_new_tokens, self.config.max_position_embeddings - input_ids_length)
            generation_config.max_new_tokens = max_new_tokens
        return super()._prepare_generated_length(
            generation_config,
            has_default_max_length,
            has_default_min_length,
            model_input_name,
            input_ids_length,
            inputs_tensor,
        )

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        """As in transformers, which has no quantised cache for encoder–decoders: here that of the target is."""
        kind = None if generation_config.use_cache is False else generation_config.cache_implementation
        if kind == "quantized" and model_kwargs.get("past_key_values") is None:
            options = {"backend": "quanto", **(generation_config.cache_config or {})}
            config = self.config.get_text_config(decoder=True)
            model_kwargs["past_key_values"] = EncoderDecoderCache(
                QuantizedCache(config=config, **options), DynamicCache(config=config)
            )
            return
        limit, longest = self.config.max_position_embeddings, generation_config.max_length
        # With a static cache lengths are tensors, at which no step looks.
        if kind in STATIC_CACHES and self.config.position_type == "learned" and longest > limit:
            raise ValueError(
                f"A static cache for {longest} tokens was asked for, but this model's learned positions end at "
                f"max_position_embeddings={limit}. Set max_length to that, or use another cache."
            )
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args, **kwargs)

    def _beam_search(self, *args, **kwargs):
        return GenerationMixin._beam_search(self._with_target_vocabulary(), *args, **kwargs)

    def _get_candidate_generator(self, *args, **kwargs):
        return GenerationMixin._get_candidate_generator(self._with_target_vocabulary(), *args, **kwargs)

    def _get_logits_processor(self, *args, **kwargs):
        return GenerationMixin._get_logits_processor(self._with_target_vocabulary(), *args, **kwargs)

    def compute_transition_scores(self, *args, **kwargs):
        return GenerationMixin.compute_transition_scores(self._with_target_vocabulary(), *args, **kwargs)

    def _with_target_vocabulary(self):
        """This model as transformers must see it: scores, prompt lookup, watermarks and 5.17's beam search read
        `vocab_size` where they mean the target's. A copy that shares all weights, lest threads meet a config in
        change."""
        if self.config.vocab_size == self.config.decoder_vocab_size:
            return self
        model = copy.copy(self)
        model.config = copy.copy(self.config)
        model.config.vocab_size = self.config.decoder_vocab_size
        return model


__all__ = ["VaswaniGenerationMixin"]
