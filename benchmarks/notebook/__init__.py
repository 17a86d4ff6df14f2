"""The notebook: a kernel from its start on, cells and what they print, and what all that costs."""
