"""A run on the Hub: what is uploaded while it trains, in the background, and at its end."""
