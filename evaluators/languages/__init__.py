"""What evaluators must know of each kernel language, one file each."""
