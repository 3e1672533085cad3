"""Sweeps: every combination of given values of recipe keys, each trained with several seeds, and compared."""
