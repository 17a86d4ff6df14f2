"""Files and archives into the box and out of it."""
