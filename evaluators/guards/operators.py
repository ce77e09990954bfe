"""The torch operators that do the work of a kernel, by the names that reach them.

The source check covers only what no kernel needs as glue: products, convolutions, attention, pools, normalizations,
losses, transforms. Whether an elementwise operator, a reduction or a copy is glue depends on its share of the work,
which is measured while the kernel runs.
"""

from __future__ import annotations

import re

from .paths import words

_PRODUCTS = words(
    """
    mm matmul bmm addmm addmm_ addbmm addbmm_ baddbmm baddbmm_ addmv addmv_ mv dot vdot inner einsum tensordot
    chain_matmul bilinear linear kron cdist pdist matrix_power matrix_exp _scaled_mm _int_mm _grouped_mm
    _scaled_grouped_mm _addmm_activation _weight_int8pack_mm _weight_int4pack_mm smm sspaddmm hspmm dsmm spmm saddmm
    _linalg_multi_dot __matmul__ __rmatmul__ __imatmul__ _trilinear linalg_matrix_exp linalg_solve_triangular
    _linalg_solve_ex
    """
)
_OTHERS = words(
    """
    softmax log_softmax _softmax _log_softmax softmin gumbel_softmax normalize local_response_norm pairwise_distance
    cosine_similarity embedding_bag _embedding_bag grid_sample affine_grid interpolate upsample stft istft lstm gru
    lstm_cell gru_cell rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell kl_div scaled_dot_product_attention
    multi_head_attention_forward flex_attention _native_multi_head_attention _transformer_encoder_layer_fwd
    linear_cross_entropy cosine_embedding_loss cholesky inverse det logdet slogdet svd qr lu_solve triangular_solve
    """
)
_FUSED = _PRODUCTS | _OTHERS
_FAMILIES = re.compile(
    r"""conv(_tbc|_transpose|olution|[1-3]d) | \w*_convolution | (\w*_)?(layer|group|batch|instance|rms)_norm
      | (\w*_)?(max|avg|lp)_(un)?pool[1-3]d | \w*_loss$ | (\w*_)?cross_entropy | (\w*_)?grid_sampler | upsample_
      | _scaled_dot_product | (\w*_)?flash_attention | quantized_ | fbgemm_ | mkldnn_ | cudnn_ | miopen_""",
    re.VERBOSE,
)
_TENSOR_METHODS = _PRODUCTS - {"linear", "bilinear", "einsum", "kron"} | {"softmax", "log_softmax"}
_VAGUE = frozenset(["dot", "inner", "mv", "normalize", "interpolate"])
"""Methods that other objects than tensors often have too."""

_GLUE_FUNCTIONS = words(
    """
    pad unfold fold one_hot embedding pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle dropout
    dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout relu relu6 relu_ leaky_relu leaky_relu_ elu elu_
    selu selu_ celu celu_ gelu silu mish sigmoid tanh hardtanh hardtanh_ hardsigmoid hardswish hardshrink softplus
    softshrink softsign tanhshrink logsigmoid threshold threshold_ prelu rrelu rrelu_ glu
    """
)
_GLUE_LINALG = frozenset(["norm", "vector_norm", "diagonal", "matrix_norm"])
_GLUE_MODULES = re.compile(
    r"""(Identity|Flatten|Unflatten|Fold|Unfold|Module|ModuleList|ModuleDict|Sequential|Parameter\w*|Buffer|Container
      |\w*Dropout[1-3]?d?|\w*Pad[1-3]d|Pixel(Un)?[Ss]huffle|ChannelShuffle|Embedding|ReLU6?|LeakyReLU|[CS]?ELU|GELU|SiLU
      |Mish|Sigmoid|Tanh|Hardtanh|Hardsigmoid|Hardswish|Hardshrink|Softplus|Softshrink|Softsign|Tanhshrink|LogSigmoid
      |Threshold|PReLU|RReLU|GLU)$""",
    re.VERBOSE,
)
_CALLED = re.compile(r"^torch\.nn\.([A-Z]\w*)(?:\(\))?(?:\.(?:forward|__call__|_call_impl|_\w*forward\w*))?$")

_FREE = words(
    """
    empty empty_like empty_strided empty_permuted zeros zeros_like ones ones_like full full_like tensor as_tensor
    asarray from_numpy frombuffer from_dlpack scalar_tensor as_strided view_as_complex view_as_real reshape permute
    transpose t swapaxes swapdims movedim moveaxis squeeze unsqueeze flatten unflatten ravel narrow select split
    split_with_sizes chunk unbind tensor_split hsplit vsplit dsplit diagonal broadcast_to broadcast_tensors expand_copy
    detach numel is_tensor is_floating_point is_complex is_storage is_signed is_same_size result_type promote_types
    can_cast finfo iinfo device dtype layout memory_format Size Tensor Generator no_grad enable_grad inference_mode
    set_grad_enabled is_grad_enabled get_default_dtype get_default_device get_device_module get_num_threads
    broadcast_shapes typename set_float32_matmul_precision get_float32_matmul_precision atleast_1d atleast_2d atleast_3d
    real imag
    """
)
_FREE_SPACES = re.compile(
    r"torch\.(cuda|backends|utils|library|autograd|_check\w*|version|nn\.init|nn\.[A-Z]|Tensor\b|_C\b)"
)
_COMPUTING_METHODS = words(
    """
    abs add add_ addcdiv addcmul all amax amin any argmax argmin argsort bernoulli ceil clamp clamp_ clip cos cosh
    cumprod cumsum div div_ erf exp exp2 exp_ expm1 floor_divide_ gather index_add index_add_ index_select log log10
    log1p log2 logsumexp masked_fill masked_fill_ maximum mean median minimum mul mul_ neg nansum norm pow prod
    reciprocal relu relu_ rsqrt scatter scatter_add scatter_add_ scatter_reduce sigmoid sign sin sinh sqrt square std
    sub sub_ sum tan tanh topk tril triu var
    """
)

_GIVEN_BACK = (
    "torch._inductor.select_algorithm.extern_kernels.",
    *(f"torch.ops.{space}." for space in ("mkldnn", "mkl", "onednn", "quantized", "sparse", "prepacked", "inductor")),
)


def gives_work_back(path: str) -> bool:
    """Return whether the function of this name does the work that kernels are written for."""
    space, _, name = path.rpartition(".")
    if path.startswith(_GIVEN_BACK):
        return True
    if space == "torch.nn.functional":
        return (name[:1].islower() and name not in _GLUE_FUNCTIONS) or name.startswith("_scaled")
    if space in ("torch", "torch.Tensor", "torch.special", "torch.nn.attention.flex_attention"):
        return name in _FUSED or _FAMILIES.match(name) is not None
    if space == "torch.linalg":
        return name not in _GLUE_LINALG
    if space in ("torch.fft", "torch.sparse", "torch.func") and name[:1].islower():
        return space != "torch.func" or name == "functional_call"
    if space.startswith("torch.") and space.islower() and gives_work_back(space):
        return True  # an overload, or the function behind a wrapper
    return path in ("operator.matmul", "operator.imatmul", "operator.__matmul__") or (
        space.startswith("torch.nn.") and module_called(path) is not None and name in ("forward", "__call__")
    )


def module_called(path: str) -> str | None:
    """Return 'Conv2d' when a call of this is a call of that torch module, or None where the module is glue."""
    called = _CALLED.match(path)
    if called is None or ("()" not in path and path.count(".") < 3) or _GLUE_MODULES.match(called[1]):
        return None
    return called[1]


def method_gives_work_back(name: str, called: bool) -> bool:
    """Return whether the tensor method does the work that kernels are written for."""
    return name in _TENSOR_METHODS and (called or name not in _VAGUE)


def computes(path: str) -> bool:
    """Return whether this is a torch function that does more than allocate or view."""
    if not path.startswith("torch.") or "()" in path or _FREE_SPACES.match(path):
        return path.startswith("torch.Tensor.") and path.rpartition(".")[2] in _COMPUTING_METHODS
    space, _, name = path.rpartition(".")
    return space in ("torch", "torch.nn.functional", "torch.special", "torch.fft", "torch.linalg") and name not in _FREE


def method_computes(name: str) -> bool:
    """Return whether the tensor method does more than view."""
    return name in _COMPUTING_METHODS
