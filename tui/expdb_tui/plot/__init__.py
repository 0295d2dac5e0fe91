"""The screen that lays the curves of several runs over each other."""
