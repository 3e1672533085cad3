"""Tokenizers: what a recipe says of one, learning a vocabulary, splitting words, BPE dropout."""
