"""The screen of one run: its head, its tabs, and what each of them shows."""
