"""The arithmetic of the model in less time, with the same results."""
