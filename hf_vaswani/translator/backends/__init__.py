"""What computes translations: the model itself or another engine, how models are converted, and what is chosen."""
