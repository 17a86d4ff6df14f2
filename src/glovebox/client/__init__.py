"""The host's side: a `Runtime` that starts a box somewhere and talks to it."""
