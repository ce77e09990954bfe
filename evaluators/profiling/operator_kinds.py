"""Classifies torch operators by name and tags."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

FREE, LAYOUT, COMPUTE, LEAVING_KIND = "free", "layout", "compute", "leaving"
"""Views and allocation; copies of whole tensors; everything else; data passed to another library."""
GATHERS = "gathers"
"""The family of operators that look elements up."""

LEAVING = frozenset({"numpy", "__array__", "tolist", "__reduce_ex__"})
"""Tensor methods after which torch does not see what happens to the data."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALLOCATING = _words(
    """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros zero ones
    ones_like new_ones full full_like new_full fill scalar_tensor arange eye lift lift_fresh unsafe_view reshape_alias
    """
)
"""Without leading and trailing underscores."""
_COPYING = _words(
    """
    clone copy to_copy convert_element_type cat stack constant_pad_nd pad reflection_pad1d reflection_pad2d
    reflection_pad3d replication_pad1d replication_pad2d replication_pad3d flip roll rot90 repeat pixel_shuffle
    pixel_unshuffle channel_shuffle view_copy expand_copy permute_copy
    """
)
"""Copies of whole tensors, whose places do not depend on data. All that is in neither list is work."""
_GATHERING = _words("index unsafe_index index_select gather take embedding")
"""With a table of results they compute any function of few inputs."""
MOVING = frozenset({LAYOUT, GATHERS}) | _words(
    """
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_nearest_exact1d upsample_nearest_exact2d
    upsample_nearest_exact3d im2col tril triu diag_embed repeat_interleave unfold_copy
    """
)
"""Families that move elements and compute nothing: copies of views can do the same."""
_FAMILIES = {
    "products": """
        mm addmm bmm baddbmm addbmm mv addmv dot vdot linear matmul ger addr scaled_mm int_mm grouped_mm mkldnn_linear
        cdist cdist_forward euclidean_dist
        """,
    "softmax": "softmax log_softmax safe_softmax logsumexp",
    "reductions": """
        sum nansum mean amax amin aminmax max min prod norm linalg_vector_norm var std var_mean std_mean all any argmax
        argmin
        """,
    "losses": """
        mse_loss l1_loss smooth_l1_loss huber_loss nll_loss_forward nll_loss2d_forward binary_cross_entropy
        cross_entropy_loss
        """,
    "scans": "cumsum cumprod cummax cummin logcumsumexp cummax_helper cummin_helper",
    "elementwise": "dropout native_dropout",
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in _words(names)}
_PARTS = {
    "conv": "convolutions",
    "attention": "attention",
    "norm": "normalizations",
    "pool": "pooling",
    "_loss": "losses",
}
"""The family of a name that contains this part, where no more specific entry exists."""


def classify(name: str, namespace: str, tags: Collection[str], is_view: bool) -> tuple[str, str]:
    """Return kind and family of an operator, such as 'compute' and 'products'.

    `name` is that of the overload packet. An operator without a known family is its own family.
    """
    plain = name.strip("_")
    if is_view or "inplace_view" in tags:
        return FREE, FREE
    if namespace not in ("aten", "prims"):
        return COMPUTE, f"{namespace}.{name}"
    if plain in _ALLOCATING:
        return FREE, FREE
    if plain in _COPYING:
        return LAYOUT, LAYOUT
    if plain in _GATHERING:
        return COMPUTE, GATHERS
    if plain in _FAMILY_OF:
        return COMPUTE, _FAMILY_OF[plain]
    if "pointwise" in tags:
        return COMPUTE, "elementwise"
    for part, family in _PARTS.items():
        if part in plain:
            return COMPUTE, family
    return COMPUTE, "reductions" if "reduction" in tags else plain


def is_replaced_by_parts(operator: Any) -> bool:
    """Return whether torch calls other operators in place of this one, unless it is in inference mode.

    Decompositions that are written in Python do not count: torch has them for operators that it does execute.
    """
    import torch

    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key))
