"""Triton."""

from ..language import Dialect, Language, Target

TRITON = Language(
    id="triton",
    name="Triton",
    dialects=(
        Dialect(
            Target.CUDA,
            modules=("triton",),
            guide="triton",
            imports="import triton\nimport triton.language as tl",
            also_runs_on=(Target.CPU,),
        ),
    ),
    modules=("triton",),
    decorators=("jit", "autotune", "heuristics"),
    device_decorators=("jit",),
    packages=("triton",),
    cache_variables=("TRITON_CACHE_DIR",),
    definition=r"@triton\.jit\b",
    # Lines are counted from the def of the function.
    excerpt=r"\bat \d+:\d+:\n((?:.*\n)*?)[ ]*\^(?:\n(?!line \d+: )(.+))?",
    keeps_asynchronous_stages=True,
)
