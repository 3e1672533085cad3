"""Tokenizers: their keys and types, and how they are learned, read and written."""
