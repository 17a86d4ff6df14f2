"""How a kernel gets the functions."""

#: Run in a kernel, it makes them known there.
IMPORT = "from glovebox.box.notebook.skills import *"
