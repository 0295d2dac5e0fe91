"""Widgets: each draws its own rows from pieces of text."""
