"""The steps of one evaluation, from source to `Evaluation`."""
