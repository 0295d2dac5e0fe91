"""Collecting what nobody needs any more; see `collect.py`."""
