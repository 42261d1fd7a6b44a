"""What a study claims, checked before anything is trained."""
