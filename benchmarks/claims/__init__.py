"""Published claims: their studies trained, their verdicts stored, docs/claims_explored.md written."""
