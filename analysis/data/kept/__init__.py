"""What runs keep beside their metrics."""
