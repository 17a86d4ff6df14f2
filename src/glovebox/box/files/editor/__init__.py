"""The editor behind `edit` and the numbered `view` of `read`."""
