"""Speed, start-up and memory: each file is one command, ``python -m benchmarks.<name>``, that prints a table."""
