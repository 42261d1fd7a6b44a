"""What the folder of a run is, for those who write it and those who read it: files, checksums, rows, names."""
