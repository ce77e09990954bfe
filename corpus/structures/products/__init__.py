"""Matrix products, with the element-wise operators before and after."""
