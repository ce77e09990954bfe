"""Full names and the rule that each breaks. The longest entry that is a prefix of a name decides."""

from __future__ import annotations

import re

from ...core.languages import BUILT_IN

_FORBIDDEN = {
    "patched-function": """
        unittest.mock mock pytest wrapt forbiddenfruit gorilla
        torch.nn.modules.module.register_module_* torch.utils.swap_tensors triton.runtime.driver.set_active
        torch.cuda.memory.change_current_allocator torch.cuda.change_current_allocator sys.meta_path sys.path_hooks
        sys.displayhook sys.excepthook
    """,
    "timer": """
        time timeit datetime sched cProfile profile pstats torch.cuda.Event torch.Event torch.cuda.streams.Event
        torch.mps.event.Event torch.profiler torch.autograd.profiler torch.utils.benchmark torch.cuda.profiler
        torch.cuda._sleep triton.testing triton.profiler tilelang.profiler
        triton.runtime.driver.active.get_benchmarker os.times resource.getrusage
    """,
    "stream": """
        torch.cuda.Stream torch.cuda.stream torch.cuda.streams torch.cuda.StreamContext torch.cuda.ExternalStream
        torch.cuda.set_stream torch.cuda.CUDAGraph torch.cuda.graph torch.cuda.graphs torch.cuda.make_graphed_callables
        torch.cuda.graph_pool_handle torch.Stream torch._C._cuda_setStream torch.accelerator.set_stream
        torch._C._CUDAGraph torch._C._CudaStreamBase
    """,
    "background-thread": """
        threading _thread asyncio concurrent.futures.ThreadPoolExecutor concurrent.futures.thread greenlet gevent
        trio anyio joblib multiprocessing.pool.ThreadPool multiprocessing.dummy torch.jit.fork torch.jit._fork
        torch.futures torch._C.fork torch.fork
    """,
    "background-process": """
        multiprocessing subprocess pty concurrent.futures.ProcessPoolExecutor concurrent.futures.process
        concurrent.futures.InterpreterPoolExecutor torch.multiprocessing ray dask
        os.fork os.forkpty os.exec* os.spawn* os.posix_spawn* os.system os.popen os.kill os.killpg os.wait*
    """,
    "introspection": """
        sys._getframe sys._current_frames sys._getframemodulename sys.settrace sys.setprofile sys.gettrace
        sys.getprofile sys.monitoring sys.modules sys.call_tracing inspect gc traceback tracemalloc faulthandler ctypes
        _ctypes cffi pickle _pickle dill cloudpickle marshal copyreg types.CodeType types.FunctionType types.FrameType
        types.TracebackType types.LambdaType dis bdb pdb code codeop runpy __main__ builtins.__build_class__
        builtins.breakpoint weakref.getweakrefs torch._dynamo.eval_frame torch._C._dynamo.eval_frame
    """,
    "dynamic-code": """
        builtins.exec builtins.eval builtins.compile importlib.reload importlib.util importlib.machinery importlib.abc
        importlib.resources imp pkgutil zipimport typing.get_type_hints typing.ForwardRef typing._eval_type
        typing_extensions.get_type_hints dataclasses.make_dataclass
    """,
    "hidden-name": """
        operator.attrgetter operator.methodcaller builtins.locals builtins.globals string.Formatter pydoc
        torch._C._jit_get_operation torch._C._get_operation_overload torch._C._jit_get_operation_overload
    """,
    "file-access": """
        builtins.open io _io pathlib shutil tempfile glob fileinput mmap linecache codecs.open shelve dbm sqlite3
        zipfile tarfile gzip bz2 lzma h5py safetensors sys.path sys.stdin os.path diskcache torch.load torch.save
        torch.from_file torch.UntypedStorage.from_file torch.serialization torch.jit.load torch.jit.save
        torch.export.load torch.export.save torch.package torch.Tensor.tofile torch._inductor.aoti_load_package
        torch._C.import_ir_module
        numpy.load numpy.save* numpy.loadtxt numpy.genfromtxt numpy.fromfile numpy.memmap numpy.lib.format
    """,
    "network": """
        socket _socket socketserver urllib urllib3 requests http ftplib smtplib ssl xmlrpc httpx aiohttp websockets zmq
        select selectors torch.hub torch.distributed huggingface_hub datasets
    """,
    "operating-system": """
        os posix nt signal resource fcntl pwd grp psutil syslog sys.setdlopenflags sys.setswitchinterval
        torch.cuda.cudart
    """,
    "environment": "os.environ os.environb os.getenv os.getenvb os.putenv os.unsetenv posix.environ",
    "global-state": """
        torch.manual_seed torch.seed torch.initial_seed torch.set_rng_state torch.get_rng_state torch.default_generator
        torch.random torch.cuda.manual_seed* torch.cuda.seed* torch.cuda.initial_seed torch.cuda.set_rng_state*
        torch.cuda.get_rng_state* torch.cuda.random torch.cuda.default_generators torch.set_default_dtype
        torch.set_default_device torch.set_default_tensor_type torch.set_num_threads torch.set_num_interop_threads
        torch.use_deterministic_algorithms torch.set_deterministic_debug_mode torch.set_flush_denormal
        torch._C._set_* torch.cuda.set_per_process_memory_fraction torch.cuda.memory._set_allocator_settings
        torch.cuda.MemPool torch.cuda.use_mem_pool
        random.seed random.setstate random.getstate numpy.random.seed numpy.random.set_state numpy.random.get_state
    """,
    "lazy-result": """
        torch._subclasses torch.utils._python_dispatch torch.overrides torch.library.Library torch.library.impl
        torch.library.impl_abstract torch.Tensor._make_subclass torch.Tensor._make_wrapper_subclass
        torch.Tensor.as_subclass torch.utils._pytree.register_pytree_node torch._lazy torch.masked torch.nested
        torch._lazy_clone torch.Tensor._lazy_clone
    """,
    "reference-model": "kernelwright kernelwright_problem kernelwright_candidate*",
    "other-language": """
        torch.utils.cpp_extension torch.cuda.jiterator torch.cuda._compile_kernel numba cupy pycuda pyopencl cython
        pyximport cuda cutlass nvmath warp taichi jax tensorflow tilelang.language.import_source
        tilelang.cpu.language.import_source triton.language.core.extern_elementwise triton.language.extern_elementwise
    """,
    "other-library": """
        flash_attn sgl_kernel torchao flashinfer xformers transformer_engine apex vllm sglang deep_gemm liger_kernel
        bitsandbytes
        fbgemm_gpu torchvision torchaudio torch_scatter torch_sparse triton.ops triton_kernels torch_geometric fla
        mamba_ssm causal_conv1d transformers onnxruntime tensorrt torch_tensorrt tilelang.tvm.contrib.cublas
        tvm.contrib.cublas numpy.matmul numpy.dot numpy.einsum numpy.tensordot numpy.inner numpy.vdot numpy.linalg
        numpy.fft numpy.convolve numpy.correlate scipy.linalg scipy.signal scipy.fft scipy.sparse scipy.ndimage
        scipy.special sklearn mkl
    """,
    "torch-compiler": """
        torch.compile torch.jit torch.fx torch._dynamo torch.export torch.compiler.compile torch._inductor.compile
        torch._inductor.compile_fx torch._inductor.aot_compile torch._inductor.aoti_compile_and_package torch.onnx
        functorch.compile torch.nn.attention.flex_attention
    """,
}
"""A trailing * matches any ending of that part of the name."""

_ALLOWED = """
    os.cpu_count os.process_cpu_count os.sched_getaffinity os.name os.PathLike multiprocessing.cpu_count
    psutil.cpu_count threading.Lock threading.RLock threading.local threading.get_ident threading.current_thread
    torch.jit.is_scripting torch.jit.is_tracing torch.jit.ignore torch.jit.unused torch.jit.export torch.jit.Final
    torch._dynamo.disable torch._dynamo.is_compiling torch._dynamo.graph_break torch._dynamo.allow_in_graph
    datetime.timedelta
"""


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_MODULES = words(
    """
    torch os sys builtins inspect gc ctypes threading subprocess importlib socket shutil tempfile pathlib time traceback
    operator
    """
)
"""Modules that other modules import: 'tilelang.utils.os.environ' is 'os.environ'."""
_SAME = (
    # torch's operators go by several names.
    (re.compile(r"^torch\.(?:_C\._VariableFunctions(?:Class)?|_VF|_refs|_prims|functional)\."), "torch."),
    (re.compile(r"^torch\._C\._(?:nn|linalg|fft|special|sparse)\."), "torch.nn.functional."),
    (re.compile(r"^torch\.(?:_C\.)?_?TensorBase\."), "torch.Tensor."),
    (re.compile(r"^torch\.ops\.(?:aten|prims)\.(\w+)(?:\.\w+)?$"), r"torch.\1"),
    (re.compile(r"^torch\.nn\.modules\.\w+\.([A-Z])"), r"torch.nn.\1"),
    (re.compile(r"^torch\.(?:_tensor|_C)\.Tensor\b"), "torch.Tensor"),
)


def canonical(path: str) -> str:
    """Return the usual name: 'torch.nn.modules.conv.Conv2d' becomes 'torch.nn.Conv2d'."""
    parts = path.split(".")
    for place in range(len(parts) - 1, 0, -1):
        if parts[place] in _MODULES and "(" not in "".join(parts[:place]):
            path = ".".join(parts[place:])
            break
    for pattern, replacement in _SAME:
        path = pattern.sub(replacement, path)
    return path


def broken_rule(path: str) -> str | None:
    """Return the rule that a use of this name breaks, whatever the policy on torch's operators, or None."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        stem = ".".join(parts[: end - 1])
        if (rule := _EXACT.get(".".join(parts[:end]))) is not None:
            return rule or None
        for start, rule in _PREFIXES.get(stem, ()):
            if parts[end - 1].startswith(start):
                return rule
    return None


def hides(path: str) -> bool:
    """Return whether a computed attribute of this could be something that a rule forbids."""
    return path.split(".")[0] in _ROOTS


def _tables() -> tuple[dict[str, str], dict[str, list[tuple[str, str]]]]:
    exact, prefixes = dict[str, str](), dict[str, list[tuple[str, str]]]()
    for rule, names in [*_FORBIDDEN.items(), ("", _ALLOWED)]:
        for name in names.split():
            if name.endswith("*"):
                stem, _, start = name[:-1].rpartition(".")
                prefixes.setdefault(stem, []).append((start, rule))
            else:
                exact[name] = rule
    return exact, prefixes


_EXACT, _PREFIXES = _tables()
_ROOTS = frozenset({name.split(".")[0] for name in _EXACT} | {"torch", "builtins"}).difference(
    *(language.modules for language in BUILT_IN)
)
