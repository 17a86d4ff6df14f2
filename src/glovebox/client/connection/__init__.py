"""The HTTP connection to a box: requests, retries, streams."""
