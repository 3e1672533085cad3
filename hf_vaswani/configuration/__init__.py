"""How the keys of a recipe are declared, named and written; what they are stands where they are used."""
