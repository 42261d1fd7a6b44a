"""What single benchmarks are made of."""
