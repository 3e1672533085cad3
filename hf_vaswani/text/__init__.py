"""What text is made of before it is tokens: invisible characters, vocabularies, languages."""
