"""Checkpoints and the output folder: writing, resuming, best weights, averaging."""
