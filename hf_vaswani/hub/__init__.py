"""Publishing: model cards and the Hub."""
