"""Where parallel text comes from: text files, tables, datasets of the Hub, the built-in corpus."""
