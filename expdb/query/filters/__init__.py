"""The filter language of `-w`: text to tokens, to a tree, to names, to a bound SQL condition."""
