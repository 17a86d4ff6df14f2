"""What is done: the executor, and one folder per capability."""
