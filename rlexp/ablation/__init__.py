"""Which part of a recipe matters? From two configurations to arms that are trained, and one table."""
