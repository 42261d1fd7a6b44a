"""docs/playground.html: every norm, policy loss and aggregation on one small group, computed in the reader's browser."""
