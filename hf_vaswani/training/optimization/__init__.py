"""Optimizer steps: what a step computes, loss, schedule, optimizer, moving average, sharding."""
