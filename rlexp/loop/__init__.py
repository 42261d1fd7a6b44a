"""The algorithm: one training step, and what stands around it."""
