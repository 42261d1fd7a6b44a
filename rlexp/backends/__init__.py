"""Who trains: each backend turns jobs into run folders."""
