"""Tools: what a box can do, as models are offered it and call it. Pure data.

Whatever model it comes from, a call becomes an action and an observation becomes a result; `formats` knows
how each kind of model writes these.
"""
