"""All figures of a sweep, in one theme."""
