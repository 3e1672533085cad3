"""Sweeps: every combination of some values of recipe keys, each trained with several seeds, and compared."""
