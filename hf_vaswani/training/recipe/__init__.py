"""Recipes: their keys, YAML and options, help, and what is wrong in them."""
