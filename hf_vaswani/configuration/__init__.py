"""How recipe keys are declared, named and written; the keys themselves are declared where they are used."""
