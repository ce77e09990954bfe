"""Rewrites operators of the reference's graph into forms for which torch's compiler has a Triton template."""
