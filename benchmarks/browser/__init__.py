"""The browser: steps, what is seen after them, the start and the weight, beside BrowserGym."""
