"""What outlives the server, and how it is found again."""
