"""What to do with a GPU for ten minutes: its tests, and what the loop, a ladder and a language model take on it."""
