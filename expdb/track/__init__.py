"""What a training script imports; needs the store only."""
