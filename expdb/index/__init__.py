"""DuckDB generations derived from the store; may be deleted at any time."""
