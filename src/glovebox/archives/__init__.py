"""Zip archives of trees: one walk, one streaming writer, one unpacker that is safe with any archive."""
