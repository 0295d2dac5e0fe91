"""How good the detectors of rules are: on made-up curves with known faults, and on real logs."""
