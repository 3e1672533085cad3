"""Sweeps: combinations of values of recipe keys, each trained with several seeds on Ray, and compared in a table."""
