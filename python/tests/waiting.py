"""How long tests wait for a state."""

GIVE_UP_AFTER = 300
"""Seconds after which a test gives a state up: no machine is so slow."""
