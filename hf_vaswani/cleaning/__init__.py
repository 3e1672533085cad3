"""Cleans parallel text: repairs pairs, finds those that are no translations, and says why each was left out."""
