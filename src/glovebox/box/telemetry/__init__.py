"""How a box is doing: counted actions, `/metrics`, and OpenTelemetry for those who ask for it."""
