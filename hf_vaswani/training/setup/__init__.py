"""Everything before the first optimizer step: checks, splits, tokenizer and model, batches."""
