"""Programs without a session: separate streams by offset, one-shot or live."""
