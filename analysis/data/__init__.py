"""Folders of runs to tables: one row per run, and one per run and logged step."""
