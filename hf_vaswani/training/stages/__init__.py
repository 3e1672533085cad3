"""Recipes with several stages: what each stage is, the order in which they run, and running them."""
