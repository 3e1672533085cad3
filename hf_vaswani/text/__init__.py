"""Text before it becomes tokens: invisible characters, vocabularies, languages."""
