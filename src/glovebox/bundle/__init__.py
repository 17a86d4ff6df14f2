"""The runtime as one file that runs in any Linux image: with its own interpreter and C library."""
