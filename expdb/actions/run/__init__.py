"""Training what is declared: `plan.py`, then `go.py`; what they return is in `results.py`."""
