"""What another processor does to a comparison."""
