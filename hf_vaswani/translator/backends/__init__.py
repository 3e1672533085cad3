"""The engines behind translations: the model itself or another one, how models are converted, which is chosen."""
