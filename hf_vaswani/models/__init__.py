"""Folders of models, of this package and of others: which files are damaged, what fits into memory, strict loading."""
