"""What is said: actions, observations, events and the OpenHands envelope around them. Pure data."""
