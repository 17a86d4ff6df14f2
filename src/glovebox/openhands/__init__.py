"""Glovebox for a stock OpenHands."""
