"""Optimizer steps: batches, loss, schedule, optimizer, moving average, sharding."""
