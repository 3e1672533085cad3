"""The translation pipeline: texts in any number in, their translations out."""
