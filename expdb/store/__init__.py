"""The truth on disk: run folders, refs, ops. No database."""
