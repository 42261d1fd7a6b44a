"""The number of a run: the choices, and how each is computed."""
