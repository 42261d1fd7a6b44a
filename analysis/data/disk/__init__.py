"""What files a folder has: whether they are what was written, and whether they are its own."""
