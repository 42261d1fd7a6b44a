"""What number stands for a run: what can be asked, and how each is computed."""
