"""Search over configs: each tuner is one file with the same ask and tell."""
