"""Tokenizers: their keys and types, learning vocabularies, reading and writing."""

from . import vocabulary as vocabulary  # registers the types of tokenizers
