"""Where boxes live. Each backend is found by its entry point and used through `client/backend.py`."""
