"""Experiments by seeds: what is done, stale, missing, and what came of it."""
