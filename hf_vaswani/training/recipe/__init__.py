"""Recipes: their keys, how files and options are read, and how they are validated."""
