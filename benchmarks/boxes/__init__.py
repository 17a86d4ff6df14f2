"""Boxes as a host starts them: how soon, how many, what talking to them costs."""
