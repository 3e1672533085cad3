"""What the commands share: options of several, and reports of lines that cannot be used."""
