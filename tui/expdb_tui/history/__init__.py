"""Lineage and operations: where runs come from, and what was changed."""
