"""One module per command: `add_command` adds its parser, `run` returns the exit status."""
