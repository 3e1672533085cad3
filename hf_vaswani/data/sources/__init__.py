"""Sources of parallel text: text files, tables, Hub datasets, and the built-in corpus."""
