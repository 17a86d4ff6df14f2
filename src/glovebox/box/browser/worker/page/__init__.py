"""What a page shows: its elements, its text, its accessibility tree."""
