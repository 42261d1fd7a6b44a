"""What a run leaves behind and resumes from."""
