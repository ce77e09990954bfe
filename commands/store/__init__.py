"""The store of regions of models, which the backend of torch.compile uses."""

EXAMPLES = ("store list", "store add results/region_optimized_1.3x.py", "store verify")
