"""The machine around the box: users, statistics, limits."""
