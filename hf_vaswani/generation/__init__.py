"""The search in less time, with its settings checked, and what puts the fast paths into the model."""
