"""docs/playground.html: every norm, policy loss and aggregation on a small group, computed in the reader's browser."""
