"""The measures, one module per group."""
