"""What travels with a checkpoint: config, model, generation, translation pipeline, tokenizer.

Each file imports only torch, transformers and its siblings, and is copied flat next to the weights.
"""
