"""Better instructions for the program, found by GEPA over recorded problems."""
