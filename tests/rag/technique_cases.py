"""Kernels that have a technique, and kernels that only look as if they had: the technique, a name, the source."""

from __future__ import annotations

from .kernels import RELU, tilelang, triton

WORDS = triton(
    """
# shared-memory pipelining tensor-cores tl.dot(a, b) swizzle2d T.alloc_shared num_stages=4 split-k persistent tma
text = "tl.dot(a, b); T.Pipelined; use_swizzle; tl.atomic_add; tl.make_tensor_descriptor; tl.cumsum"
swizzle = tl.program_id(0) * BLOCK
persistent_split_k = swizzle + tl.arange(0, BLOCK)
x = tl.load(x_ptr + persistent_split_k)
tl.store(y_ptr + persistent_split_k, x + 1.0)
""",
    doc="Tensor cores, split-k, TMA, online reduction, warp specialization, fusion, scan, unrolling, threads.",
)
"""Every technique in words, none in code but wide, coalesced accesses."""

PRODUCT = """
pid_m = tl.program_id(0)
pid_n = tl.program_id(1)
offs_m = pid_m * 64 + tl.arange(0, 64)
offs_n = pid_n * 64 + tl.arange(0, 64)
offs_k = tl.arange(0, 32)
acc = tl.zeros((64, 64), dtype=tl.float32)
for k in range(0, n, 32):
    a = tl.load(x_ptr + offs_m[:, None] * n + k + offs_k[None, :])
    b = tl.load(x_ptr + (k + offs_k[:, None]) * n + offs_n[None, :])
    acc = tl.dot(a, b, acc{exact})
tl.store(y_ptr + offs_m[:, None] * n + offs_n[None, :], acc)
"""
PRODUCT_TF32 = triton(PRODUCT.format(exact=""))
PRODUCT_EXACT = triton(PRODUCT.format(exact=', input_precision="ieee"'))
STAGED = triton(PRODUCT.format(exact=""), arguments="x, y, x.numel(), BLOCK=BLOCK, num_stages=3")
ONE_STAGE = triton(PRODUCT.format(exact=""), arguments="x, y, x.numel(), BLOCK=BLOCK, num_stages=1")
SPLIT = triton(
    PRODUCT.format(exact="")
    .replace("offs_k = tl.arange(0, 32)", "offs_k = tl.program_id(2) * 512 + tl.arange(0, 32)")
    .replace("tl.store(y_ptr", "tl.atomic_add(y_ptr")
)
BATCHED = triton(
    PRODUCT.format(exact="").replace(
        "offs_k = tl.arange(0, 32)",
        "offs_k = tl.arange(0, 32)\nx_ptr += tl.program_id(2) * n\ny_ptr += tl.program_id(2)",
    )
)
GROUPED = triton(
    PRODUCT.format(exact="").replace(
        "pid_m = tl.program_id(0)\npid_n = tl.program_id(1)",
        "pid = tl.program_id(0)\nrows = min(8, tl.cdiv(n, 64))\npid_m = pid % rows\npid_n = pid // rows",
    )
)
PERSISTENT = triton("""
for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
    offs = tile * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2.0)
""")
ONLINE = triton("""
largest = -float("inf")
total = 0.0
for start in range(0, n, BLOCK):
    x = tl.load(x_ptr + start + tl.arange(0, BLOCK))
    grown = tl.maximum(largest, tl.max(x, axis=0))
    total = total * tl.exp(largest - grown) + tl.sum(tl.exp(x - grown), axis=0)
    largest = grown
tl.store(y_ptr, total)
""")
WELFORD = triton("""
mean = 0.0
square = 0.0
for i in range(0, n):
    x = tl.load(x_ptr + i)
    delta = x - mean
    mean += delta / (i + 1)
    square += delta * (x - mean)
tl.store(y_ptr, square / n)
""")
TWO_PASSES = triton("""
largest = -float("inf")
for start in range(0, n, BLOCK):
    largest = tl.maximum(largest, tl.max(tl.load(x_ptr + start + tl.arange(0, BLOCK)), axis=0))
total = 0.0
for start in range(0, n, BLOCK):
    total += tl.sum(tl.exp(tl.load(x_ptr + start + tl.arange(0, BLOCK)) - largest), axis=0)
tl.store(y_ptr, total)
""")
STRIDED = triton("""
offs = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * n
tl.store(y_ptr + offs, tl.load(x_ptr + offs))
""")
NARROW = RELU.replace("BLOCK = 1024", "BLOCK = 128")
ROWS = triton("""
rows = tl.program_id(0) * 8 + tl.arange(0, 8)
x = tl.load(x_ptr + rows[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :])
tl.store(y_ptr + rows, tl.sum(x, axis=1))
""")
ONE_ROW = triton("tl.store(y_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK)), axis=0))")
DESCRIPTOR = triton("""
desc = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
tl.store(y_ptr + tl.arange(0, BLOCK), desc.load([0]))
""")
SPECIALIZED = triton("""
for i in tl.range(0, n, warp_specialize=True):
    tl.store(y_ptr + i, tl.load(x_ptr + i))
""")
NOT_SPECIALIZED = SPECIALIZED.replace("warp_specialize=True", "warp_specialize=False")
SCAN = triton("tl.store(y_ptr + tl.arange(0, BLOCK), tl.cumsum(tl.load(x_ptr + tl.arange(0, BLOCK)), axis=0))")
STATIC = triton("""
for i in tl.static_range(4):
    tl.store(y_ptr + i, tl.load(x_ptr + i))
""")

COPY = """
with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
    A_tile = T.{alloc}((64, 32), "float32")
    B_tile = T.{alloc}((32, 64), "float32")
    acc = T.alloc_fragment((64, 64), "float32")
    {swizzle}
    for ko in {loop}:
        T.copy(A[by * 64, ko * 32], A_tile)
        T.copy(B[ko * 32, bx * 64], B_tile)
        T.gemm(A_tile, B_tile, acc)
    T.copy(acc, C[by * 64, bx * 64])
"""
SHARED = tilelang(COPY.format(alloc="alloc_shared", swizzle="T.clear(acc)", loop="T.serial(K // 32)"))
FRAGMENTS = tilelang(COPY.format(alloc="alloc_fragment", swizzle="T.clear(acc)", loop="T.serial(K // 32)"))
PIPELINED = tilelang(
    COPY.format(alloc="alloc_shared", swizzle="T.use_swizzle(8)", loop="T.Pipelined(K // 32, num_stages=3)")
)
NO_STAGES = tilelang(
    COPY.format(alloc="alloc_shared", swizzle="T.clear(acc)", loop="T.Pipelined(K // 32, num_stages=0)")
)
THREAD_ROWS = tilelang("""
with T.Kernel(T.ceildiv(M, BLOCK), threads=BLOCK) as bx:
    row = bx * BLOCK + T.get_thread_binding()
    for j in T.serial(N):
        C[row, j] = A[row, j] * 2.0
""")
PARALLEL = tilelang("""
with T.Kernel(T.ceildiv(M, BLOCK), threads=BLOCK) as bx:
    for i, j in T.Parallel(BLOCK, N):
        C[bx * BLOCK + i, j] = A[bx * BLOCK + i, j] * 2.0
""")

TEXTBOOK = tilelang(
    """
with T.Kernel(M, N) as (i, j):
    acc = T.alloc_local((1,), "float32")
    acc[0] = 0.0
    for k in T.serial(K):
        acc[0] += A[i, k] * B[k, j]
    C[i, j] = acc[0]
""",
    cpu=True,
)
REGISTERS = tilelang(
    """
with T.Kernel(M // 4, N // 32) as (bi, bj):
    acc = T.alloc_local((4, 32), "float32")
    T.clear(acc)
    for k in T.serial(K):
        for i in T.serial(4):
            for j in T.serial(32):
                acc[i, j] += A[bi * 4 + i, k] * B[k, bj * 32 + j]
    for i, j in T.grid(4, 32):
        C[bi * 4 + i, bj * 32 + j] = acc[i, j]
""",
    cpu=True,
)
LANES = tilelang(
    """
with T.Kernel(M) as row:
    sums = T.alloc_local((16,), "float32")
    T.clear(sums)
    for j in T.serial(N // 16):
        for lane in T.serial(16):
            sums[lane] += A[row, j * 16 + lane]
    for lane in T.serial(16):
        C[row, 0] += sums[lane]
""",
    cpu=True,
)
POOL = TEXTBOOK.replace("BLOCK = 64", "POOL = ThreadPoolExecutor(4)\n\n\ndef run(f):\n    POOL.submit(f)").replace(
    "import functools", "import functools\nfrom concurrent.futures import ThreadPoolExecutor"
)

NOT_IN_WORDS = [
    *("tensor-cores", "split-k", "tma", "online-reduction", "swizzle", "shared-memory", "pipelining", "fusion", "scan"),
    *("threads", "persistent-grid", "warp-specialization", "unrolling"),
]
SCALAR = tilelang("""
with T.Kernel(1, threads=128) as bx:
    total = T.alloc_local((1,), "float32")
    C[()] = total[0]
""")
"""The access has no dimension, and so no lanes."""

HAS = [
    ("tensor-cores", "dot", PRODUCT_TF32),
    ("tensor-cores", "gemm", SHARED),
    ("shared-memory", "alloc_shared", SHARED),
    ("shared-memory", "operands of dot in a loop", PRODUCT_TF32),
    ("pipelining", "stages of a launch", STAGED),
    ("pipelining", "T.Pipelined", PIPELINED),
    ("swizzle", "groups of rows", GROUPED),
    ("swizzle", "T.use_swizzle", PIPELINED),
    ("split-k", "atomics", SPLIT),
    ("persistent-grid", "from tile to tile", PERSISTENT),
    ("online-reduction", "rescaled sum", ONLINE),
    ("online-reduction", "Welford", WELFORD),
    ("coalescing", "neighbours", RELU),
    ("coalescing", "T.Parallel", PARALLEL),
    ("vectorized-access", "eight elements per thread", RELU),
    ("multi-row-blocks", "eight rows", ROWS),
    ("tma", "descriptor", DESCRIPTOR),
    ("warp-specialization", "tl.range", SPECIALIZED),
    ("scan", "cumsum", SCAN),
    ("unrolling", "static_range", STATIC),
    ("unrolling", "lanes", LANES),
    ("register-tiling", "on a CPU", REGISTERS),
    ("register-tiling", "accumulator of a product", SHARED),
    ("loop-order", "contiguous", REGISTERS),
    ("threads", "a pool", POOL),
    ("fusion", "product and function", ONLINE),
]
HAS_NOT = [
    ("coalescing", "an access without dimensions", SCALAR),
    *(
        (technique, "words only", WORDS)
        for technique in ("tensor-cores", "split-k", "tma", "online-reduction", "swizzle")
    ),
    *((technique, "words only", WORDS) for technique in NOT_IN_WORDS),
    ("tensor-cores", "exact fp32", PRODUCT_EXACT),
    ("shared-memory", "fragments", FRAGMENTS),
    ("pipelining", "one stage", ONE_STAGE),
    ("pipelining", "no stages", NO_STAGES),
    ("pipelining", "a serial loop", SHARED),
    ("split-k", "a batch", BATCHED),
    ("split-k", "a plain product", PRODUCT_TF32),
    ("persistent-grid", "a loop over blocks", ONLINE),
    ("online-reduction", "two passes", TWO_PASSES),
    ("coalescing", "a stride", STRIDED),
    ("coalescing", "a thread per row", THREAD_ROWS),
    ("vectorized-access", "one element per thread", NARROW),
    ("multi-row-blocks", "one row", ONE_ROW),
    ("warp-specialization", "switched off", NOT_SPECIALIZED),
    ("register-tiling", "one sum", TEXTBOOK),
    ("register-tiling", "sums of no products", LANES),
    ("loop-order", "down a column", TEXTBOOK),
    ("threads", "one core", TEXTBOOK),
    ("unrolling", "a plain loop", TEXTBOOK),
    ("swizzle", "a plain product", PRODUCT_TF32),
    ("fusion", "a single operation", PERSISTENT),
]
