"""Short trainings in a place of their own: a run again (`repro.py`), or measured (`measure.py`)."""
