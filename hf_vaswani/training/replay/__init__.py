"""The trail that a run leaves, and its replay: whether the same text and recipe come to the same again."""
