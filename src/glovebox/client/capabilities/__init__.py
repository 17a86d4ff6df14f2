"""What can be done in a box, as `AsyncBox` offers it: commands, processes, files, notebook, browser."""
