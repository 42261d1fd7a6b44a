"""Published claims, each asked by a declared question: docs/claims.md and a card for each."""
