"""IPython kernels: cells, named kernels, other languages."""
