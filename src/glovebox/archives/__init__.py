"""Zip archives: their records, and a reader that is safe with any archive."""
