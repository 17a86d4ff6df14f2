"""How each kind of model is told of tools, writes calls and reads results. Pure; one module per format.

A module reads the calls of its format (`call`, `items`) and writes their results (`result`, `appended`), and
those of providers also write definitions; `reading` and `definitions` choose among them.
"""
