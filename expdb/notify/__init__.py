"""Tells people what rules found, and which runs died: channels, what was told, and the limits."""
