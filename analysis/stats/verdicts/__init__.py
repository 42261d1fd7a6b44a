"""What became of a study's expectations: read, tested, and judged by one rule."""
