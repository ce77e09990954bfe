"""Matrix products, with what is element-wise before and after."""
