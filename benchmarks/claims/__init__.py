"""Published claims: their studies trained, their verdicts stored, docs/claims.md written."""
