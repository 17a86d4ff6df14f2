"""Looking at, moving, deleting and making paths."""
