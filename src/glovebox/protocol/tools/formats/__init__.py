"""How each kind of model is offered tools, writes calls and reads results. Free of I/O."""
