"""Recipes of several stages: what each stage is, in which order they run, and running them."""
