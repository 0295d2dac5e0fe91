"""What a probe measures inside the training process; see `drive.py`."""
