"""What a command printed: its log, its rendering, its digest."""
