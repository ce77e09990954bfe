"""What the reference's graph computes in another form, so that torch's compiler has a Triton template for it."""
