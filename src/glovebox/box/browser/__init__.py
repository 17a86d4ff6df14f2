"""The browser: Chromium in a process of its own, what agents do with pages, and what they see of them."""
