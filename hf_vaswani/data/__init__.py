"""From text to batches: parallel text, tokenizers, encoded pairs and token-budget batches."""
