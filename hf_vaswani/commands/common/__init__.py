"""What the commands share: option parsing, and reports about lines that cannot be used."""
