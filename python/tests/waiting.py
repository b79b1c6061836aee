"""How long tests wait for a state."""

GIVE_UP_AFTER = 300
"""Seconds after which a test fails with a state not reached: no machine is so slow."""
