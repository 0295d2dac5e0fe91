"""The terminal app of expdb."""
