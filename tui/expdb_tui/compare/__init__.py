"""The comparison of marked runs: the verdict, what differs, and by how much."""
