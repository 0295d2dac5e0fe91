"""The small language model, its data and its evaluation."""
