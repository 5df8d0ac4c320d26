"""Stand-ins for what archqa talks to."""
