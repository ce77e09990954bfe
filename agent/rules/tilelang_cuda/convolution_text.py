"""What packed-convolution adds to a file: a transposed convolution of stride 1 as one product of slabs of rows."""

PRODUCT_C, PRODUCT_P, PRODUCT_K = "PRODUCT_C", "PRODUCT_P", "PRODUCT_K"
"""The constants of the product: result channels, positions, and channels of one step."""
PRODUCT_THREADS, PRODUCT_STAGES = "PRODUCT_THREADS", "PRODUCT_STAGES"
CONVOLUTION = "build_convolution"

TEXT = '''
@functools.lru_cache
def build_pack(B, C, D, H, W, OD, OH, OW, lead):
    """Splits x into high and low parts, in rows of channels; a row is a position of the whole result.

    Outside of the input rows are zero, and so are `lead` rows before the first sample: what a tap reads for
    consecutive positions are then consecutive rows, some way before them.
    """
    size = OD * OH * OW
    rows = lead + B * size
    parts = getattr(T, PARTS)

    @T.prim_func
    def pack(
        x: T.Tensor((B, C, D, H, W), "float32"),
        high: T.Tensor((rows, C), parts),
        low: T.Tensor((rows, C), parts),
    ):
        with T.Kernel(T.ceildiv(rows, 64), T.ceildiv(C, 64), threads=256) as (br, bc):
            # Read along the positions, written along the channels; padded against bank conflicts.
            turned = T.alloc_shared((64, 65), "float32")
            first = T.alloc_fragment((64, 64), parts)
            second = T.alloc_fragment((64, 64), parts)
            for c, r in T.Parallel(64, 64):
                row = br * 64 + r - lead
                d = row % size // (OH * OW)
                h = row // OW % OH
                w = row % OW
                inside = (row >= 0) & (row < B * size) & (bc * 64 + c < C) & (d < D) & (h < H) & (w < W)
                turned[c, r] = T.if_then_else(inside, x[row // size, bc * 64 + c, d, h, w], 0.0)
            for r, c in T.Parallel(64, 64):
                first[r, c] = T.cast(turned[c, r], parts)
                second[r, c] = T.cast(turned[c, r] - T.cast(T.cast(turned[c, r], parts), "float32"), parts)
            T.copy(first, high[br * 64, bc * 64])
            T.copy(second, low[br * 64, bc * 64])

    return tilelang.compile(pack, out_idx=[1, 2], target=TARGET)


@functools.lru_cache
def build_convolution(B, IC, OC, D, H, W, kernel_d, kernel):
    """The whole transposed convolution with stride 1 of x (B, IC, D, H, W) and weights (taps, OC, IC).

    The result is (B, OC, positions), of the size without padding.
    """
    OD, OH, OW = D + kernel_d - 1, H + kernel - 1, W + kernel - 1
    size = OD * OH * OW
    lead = ((kernel_d - 1) * OH + kernel - 1) * OW + kernel - 1
    rows, taps = lead + B * size, kernel_d * kernel * kernel
    chunks = (IC + PRODUCT_K - 1) // PRODUCT_K
    parts, policy = getattr(T, PARTS), T.GemmWarpPolicy[POLICY]

    @T.prim_func
    def convolution(
        x_high: T.Tensor((rows, IC), parts),
        x_low: T.Tensor((rows, IC), parts),
        w_high: T.Tensor((taps, OC, IC), parts),
        w_low: T.Tensor((taps, OC, IC), parts),
        y: T.Tensor((B, OC, size), "float32"),
    ):
        with T.Kernel(T.ceildiv(size, PRODUCT_P), T.ceildiv(OC, PRODUCT_C), B, threads=PRODUCT_THREADS) as (bp, bc, b):
            x_tile_high = T.alloc_shared((PRODUCT_P, PRODUCT_K), parts)
            x_tile_low = T.alloc_shared((PRODUCT_P, PRODUCT_K), parts)
            w_tile_high = T.alloc_shared((PRODUCT_C, PRODUCT_K), parts)
            w_tile_low = T.alloc_shared((PRODUCT_C, PRODUCT_K), parts)
            part = T.alloc_fragment((PRODUCT_C, PRODUCT_P), "float32")
            acc = T.alloc_fragment((PRODUCT_C, PRODUCT_P), "float32")
            T.clear(acc)
            for step in T.Pipelined(taps * chunks, num_stages=PRODUCT_STAGES):
                T.copy(w_high[step // chunks, bc * PRODUCT_C, step % chunks * PRODUCT_K], w_tile_high)
                T.copy(w_low[step // chunks, bc * PRODUCT_C, step % chunks * PRODUCT_K], w_tile_low)
                T.copy(x_high[lead + b * size + bp * PRODUCT_P - {shift}, step % chunks * PRODUCT_K], x_tile_high)
                T.copy(x_low[lead + b * size + bp * PRODUCT_P - {shift}, step % chunks * PRODUCT_K], x_tile_low)
{products}
            T.copy(acc, y[b, bc * PRODUCT_C, bp * PRODUCT_P])

    product = tilelang.compile(convolution, out_idx=[-1], target=TARGET)
    pack = build_pack(B, IC, D, H, W, OD, OH, OW, lead)
    split = build_split(taps * OC, IC)

    def run(x, weight):
        weights = [one.view(taps, OC, IC) for one in split(weight.view(taps * OC, IC))]
        return product(*pack(x.view(B, IC, D, H, W)), *weights)

    return run
'''
SHIFT = (
    "((step // chunks // (kernel * kernel) * OH + step // chunks // kernel % kernel) * OW + step // chunks % kernel)"
)
"""How many rows before a position's own a tap's row stands."""
