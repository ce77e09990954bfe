"""TileLang, for GPUs and for CPUs."""

from ..language import Dialect, Language, Target

TILELANG = Language(
    id="tilelang",
    name="TileLang",
    dialects=(
        Dialect(
            Target.CPU,
            modules=("tilelang.cpu",),
            guide="tilelang_cpu",
            imports="import tilelang\nimport tilelang.cpu.language as T",
        ),
        Dialect(
            Target.CUDA,
            modules=("tilelang",),
            guide="tilelang",
            imports="import tilelang\nimport tilelang.language as T",
        ),
    ),
    modules=("tilelang", "tvm"),
    decorators=("jit", "lazy_jit", "prim_func", "autotune"),
    device_decorators=("jit", "prim_func", "macro"),
    # The function under it is Python that builds a kernel.
    host_decorators=("tilelang.jit",),
    packages=("tilelang",),
    installs=("tilelang",),
    cache_variables=("TILELANG_CACHE_DIR",),
    definition=r"\bT\.Kernel\(",
    # It prints its own rewriting of the kernel before it raises the exception that says what was wrong.
    noise="__tb.",
    keeps_stages=True,
)
