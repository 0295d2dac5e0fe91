"""Detectors: pure and streaming, the same code live and in replay."""
