"""A run's trail and its replay, which shows whether the same text and recipe give the same results again."""
