"""Search the parameters of a kernel."""

EXAMPLES = ("tune kernel 1_1 --trials 100", "tune gemm --sizes sizes.yaml --format vllm --output configs")
