"""The page of a sweep, its tables and its files."""
