"""bash: how it is started, given commands and understood."""
