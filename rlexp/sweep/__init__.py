"""Jobs as batches: which runs train together, and their training."""
