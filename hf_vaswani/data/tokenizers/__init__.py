"""Tokenizers: their keys and types, and how they are learned, read and written."""

from . import vocabulary as vocabulary  # registers the tokenizer types
