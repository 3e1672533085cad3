"""Translating with a trained model: texts, files, several models together, and scores of given pairs."""
