"""The multi-turn optimization: the loop, its proposers, the models, the history of a run."""
