"""Text to a checked config."""
