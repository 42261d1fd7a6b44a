"""What decides whether a run makes the next update on a rollout."""
