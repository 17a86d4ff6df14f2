"""State that survives a restart of the server: journals, the state directory, restored sessions."""
