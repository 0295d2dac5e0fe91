"""Checking every file of a store, and mending what is damaged."""
