"""Looking at a run again, in a place of its own; see `repro.py`."""
