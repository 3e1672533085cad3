"""Uploads of a run to the Hub: in the background while it trains, and at its end."""
