"""What the commands share: parsing of options, and reports of lines that cannot be used."""
