"""Hydra's side: planning a sweep, its hooks, and the executors that train its batches."""
