"""Changes, one verb a file; each writes one op."""
