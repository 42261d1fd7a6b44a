"""How files are written so that nothing is lost, and read so that nothing lies."""
