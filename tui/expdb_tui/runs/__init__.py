"""The screen of runs: its rows, its columns, its preview."""
