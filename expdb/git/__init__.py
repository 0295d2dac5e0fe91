"""Git plumbing through one argument-list helper."""
