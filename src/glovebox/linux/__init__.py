"""The Linux kernel's interfaces: /proc, control groups, terminals, resource limits. Standard library only."""
