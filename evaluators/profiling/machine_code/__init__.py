"""Facts from the machine code of NVIDIA GPUs (SASS), without a GPU: addresses of a warp's lanes, waits, kinds."""
