"""Logs of other tools: a module a format (path to `Logs`), and `mapping`, which makes `SweepData` of them."""
