"""What is measured inside a model while it trains: `run.watch`, and `Loop` by itself."""
