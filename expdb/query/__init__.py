"""Pure reads that return dataclasses."""
