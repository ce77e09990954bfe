"""What the static check refuses, each beside similar code that is allowed.

`{body}` of a case is in forward, `{top}` at the top of the file, `{init}` in the constructor.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

FILE = """
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F
{top}

@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets, offsets < n) * 2, offsets < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
{init}

    def forward(self, x):
{body}
"""


@dataclass(frozen=True)
class Snippet:
    """A part of a kernel, and the rule that it breaks; none where it is allowed."""

    rule: str | None
    body: str = "return x"
    top: str = ""
    init: str = "pass"
    target: str = "cuda"
    allow: str = "glue"

    @property
    def source(self) -> str:
        return FILE.format(top=self.top, init=indent(self.init, " " * 8), body=indent(self.body, " " * 8))


def _pairs() -> list[Snippet]:
    found = [Snippet(rule, body) for rule, body in BODIES]
    found += [Snippet(rule, body, top) for rule, body, top in TOPS]
    found += [Snippet(rule, body, init=init) for rule, body, init in INITS]
    found += [Snippet(rule, body, top, target="cpu") for rule, body, top in ON_CPU]
    found += [Snippet(rule, body, allow="none") for rule, body in WITHOUT_TORCH]
    found += [Snippet(rule, body, allow="all") for rule, body in WITH_ALL_OF_TORCH]
    return found


BODIES = [
    # Patched modules
    ("patched-function", "torch.cuda.synchronize = lambda: None"),
    ("patched-function", "torch.Tensor.__eq__ = lambda a, b: True"),
    ("patched-function", "setattr(torch, 'allclose', lambda *a: True)"),
    ("patched-function", "delattr(torch.cuda, 'synchronize')"),
    ("patched-function", "del torch.cuda.synchronize"),
    ("patched-function", "vars(torch)['equal'] = lambda a, b: True"),
    ("patched-function", "torch.__dict__.update(equal=lambda a, b: True)"),
    ("patched-function", "torch.__dict__['equal'] = None"),
    ("patched-function", "type(x).__eq__ = lambda a, b: True"),
    ("patched-function", "x.__class__.clone = lambda a: a"),
    ("patched-function", "object.__setattr__(torch, 'equal', None)"),
    ("patched-function", "t = torch\nt.cuda.synchronize = None"),
    ("patched-function", "for torch.equal in [None]: pass"),
    ("patched-function", "torch.cuda.synchronize, y = None, 1"),
    ("patched-function", "__builtins__['len'] = None"),
    ("patched-function", "import builtins; builtins.max = None"),
    ("patched-function", "tl.load = None"),
    ("patched-function", "from unittest import mock; mock.patch('torch.equal').start()"),
    (None, "self.weight.data = x"),
    (None, "self.synchronize = lambda: None"),
    (None, "setattr(self, 'allclose', 1)"),
    (None, "torch.backends.cuda.matmul.allow_tf32 = True"),
    (None, "torch.backends.cudnn.allow_tf32 = False"),
    (None, "synchronize = torch.cuda.synchronize; synchronize()"),
    (None, "'torch.cuda.synchronize = None'"),
    (None, "# torch.cuda.synchronize = None\nreturn x"),
    (None, "y = {}; y['torch'] = torch; y.update(a=1)"),
    # Timers
    ("timer", "import time; time.sleep(1)"),
    ("timer", "import time as t; t.perf_counter()"),
    ("timer", "from time import perf_counter; perf_counter()"),
    ("timer", "__import__('time').time()"),
    ("timer", "import importlib; importlib.import_module('ti' + 'me').time()"),
    ("timer", "torch.cuda.Event(enable_timing=True)"),
    ("timer", "x.elapsed_time(x)"),
    ("timer", "triton.testing.do_bench(lambda: x)"),
    ("timer", "torch.profiler.profile()"),
    (None, "time = x.shape[0]; return x[:time]"),
    (None, "import time\nreturn x"),
    (None, "return self.time(x)"),
    # Streams
    ("stream", "torch.cuda.Stream()"),
    ("stream", "with torch.cuda.stream(None): pass"),
    ("stream", "g = torch.cuda.CUDAGraph()"),
    ("stream", "torch.cuda.make_graphed_callables(self, (x,))"),
    ("stream", "x.record_stream(None)"),
    (None, "torch.cuda.current_stream().cuda_stream"),
    (None, "with torch.cuda.device(x.device): scale[(1,)](x, x, 1, BLOCK=8)"),
    (None, "stream = x.shape; graph = stream[0]"),
    # Threads and processes
    ("background-thread", "import threading; threading.Thread(target=print).start()"),
    ("background-thread", "import asyncio; asyncio.run(None)"),
    ("background-thread", "from concurrent.futures import ThreadPoolExecutor; ThreadPoolExecutor(2)"),
    ("background-process", "import multiprocessing as mp; mp.Process(target=print).start()"),
    ("background-process", "import subprocess; subprocess.run(['true'])"),
    ("background-process", "import os; os.fork()"),
    ("background-process", "from os import system as s; s('true')"),
    ("background-process", "from concurrent.futures import ProcessPoolExecutor; ProcessPoolExecutor()"),
    (None, "import threading; lock = threading.Lock()"),
    (None, "import os; return x * os.cpu_count()"),
    # Introspection
    ("introspection", "import sys; sys._getframe(1)"),
    ("introspection", "import inspect; inspect.stack()"),
    ("introspection", "import gc; gc.get_objects()"),
    ("introspection", "import ctypes; ctypes.string_at(0)"),
    ("introspection", "import traceback; traceback.extract_stack()"),
    ("introspection", "return self.forward.__globals__"),
    ("introspection", "return self.forward.__globals__.get('x')"),
    ("introspection", "return getattr(self.forward, '__glo' + 'bals__')"),
    ("introspection", "return object.__subclasses__()"),
    ("introspection", "import sys; sys.modules['numpy']"),
    ("introspection", "import sys; sys.modules.values()"),
    ("introspection", "import pickle; pickle.dumps(x)"),
    ("introspection", "from types import FunctionType; FunctionType(None, {})"),
    ("introspection", "try: 1\nexcept Exception as e: e.__traceback__"),
    ("introspection", "import __main__; __main__.secret"),
    (None, "import sys; return x if sys.version_info > (3,) else x"),
    (None, "import platform; platform.machine()"),
    (None, "return self.__class__.__name__"),
    (None, "import inspect\nreturn x"),
    (None, "gc = 3; return x * gc"),
    # Dynamic code
    ("dynamic-code", "exec('pass')"),
    ("dynamic-code", "eval('1')"),
    ("dynamic-code", "compile('1', '', 'eval')"),
    ("dynamic-code", "import builtins; getattr(builtins, 'ev' + 'al')('1')"),
    ("dynamic-code", "import importlib.util; importlib.util.find_spec('torch')"),
    ("hidden-name", "n = str(x); getattr(torch, n)(x, x)"),
    ("hidden-name", "f = getattr(torch, x.name + 'm'); return f(x, x)"),
    ("hidden-name", "__import__(str(x)).run()"),
    ("hidden-name", "import operator; operator.attrgetter('mm')(torch)(x, x)"),
    (None, "self.eval(); return x"),
    (None, "import re; re.compile('a')"),
    (None, "y = torch.empty(1, dtype=getattr(torch, str(x)))"),
    (None, "y = torch.empty(1, dtype=getattr(torch, 'float16'))"),
    # Files and network
    ("file-access", "open('results')"),
    ("file-access", "from pathlib import Path; Path('a').read_text()"),
    ("file-access", "import io; io.open('a')"),
    ("file-access", "import tempfile; tempfile.mkdtemp()"),
    ("file-access", "torch.save(x, 'a')"),
    ("file-access", "torch.load('a')"),
    ("file-access", "import numpy as np; np.load('a')"),
    ("file-access", "import os.path; os.path.exists('a')"),
    ("file-access", "import builtins; builtins.open('a')"),
    ("file-access", "__builtins__['open']('a') if False else __builtins__.open('a')"),
    ("network", "import socket; socket.socket()"),
    ("network", "from urllib.request import urlopen; urlopen('http://a')"),
    ("operating-system", "import os; os._exit(0)"),
    ("operating-system", "import os; os.listdir('.')"),
    ("operating-system", "import signal; signal.alarm(1)"),
    ("environment", "import os; os.environ['A'] = '1'"),
    ("environment", "from os import environ; environ.get('A')"),
    (None, "open = lambda x: x; return open(x)"),
    (None, "return x.open()"),
    (None, "load = torch.empty; load(1)"),
    (None, "return 'open(results)'"),
    # State of the evaluator
    ("global-state", "torch.manual_seed(0)"),
    ("global-state", "torch.set_default_dtype(torch.float16)"),
    ("global-state", "torch.set_num_threads(1)"),
    ("global-state", "torch.initial_seed()"),
    ("global-state", "import random; random.seed(0)"),
    (None, "torch.set_float32_matmul_precision('high')"),
    (None, "g = torch.Generator(); g.manual_seed(0)"),
    (None, "torch.get_default_dtype()"),
    # Lazy results
    ("lazy-result", "class Lazy(torch.Tensor): pass"),
    ("lazy-result", "from torch import Tensor as T\nclass Lazy(T): pass"),
    ("lazy-result", "type('Lazy', (torch.Tensor,), {})"),
    ("lazy-result", "from torch.utils._python_dispatch import TorchDispatchMode as M; M()"),
    ("lazy-result", "x.as_subclass(None)"),
    ("lazy-result", "torch.library.Library('aten', 'IMPL')"),
    ("lazy-result", "x.__class__ = None"),
    (None, "class Tensor: pass\nclass Sub(Tensor): pass"),
    (None, "class Block(nn.Module): pass"),
    (None, "isinstance(x, torch.Tensor)"),
    # The problem's own code
    ("reference-model", "import kernelwright_problem"),
    ("reference-model", "from kernelwright.evaluators import judge"),
    ("reference-model", "import importlib as i; i.import_module('kernelwright_problem').Model()"),
    ("reference-model", "__import__('kernelwright_problem')"),
    (None, "kernelwright = 3; return x * kernelwright"),
    # Other languages, libraries, compilers
    ("other-language", "from torch.utils.cpp_extension import load_inline; load_inline('a', '')"),
    ("other-language", "import cupy; cupy.RawKernel('', '')"),
    ("other-library", "import flash_attn; flash_attn.flash_attn_func(x, x, x)"),
    ("other-library", "import numpy as np; np.matmul(x, x)"),
    ("torch-compiler", "return torch.compile(lambda x: x)(x)"),
    ("torch-compiler", "@torch.jit.script\ndef f(x): return x\nreturn f(x)"),
    ("torch-compiler", "torch.fx.symbolic_trace(self)"),
    (None, "import numpy as np; np.prod(x.shape)"),
    (None, "compile = lambda x: x; return compile(x)"),
    # Torch's operators
    ("torch-operator", "return torch.mm(x, x)"),
    ("torch-operator", "return x @ x"),
    ("torch-operator", "x @= x"),
    ("torch-operator", "return x.matmul(x)"),
    ("torch-operator", "return (x + 1).t().mm(x)"),
    ("torch-operator", "return torch.Tensor.mm(x, x)"),
    ("torch-operator", "return x.__matmul__(x)"),
    ("torch-operator", "return x.softmax(-1)"),
    ("torch-operator", "return F.conv2d(x, x)"),
    ("torch-operator", "return F.scaled_dot_product_attention(x, x, x)"),
    ("torch-operator", "return nn.functional.layer_norm(x, (1,))"),
    ("torch-operator", "return torch.nn.functional.cross_entropy(x, x)"),
    ("torch-operator", "return nn.Linear(3, 3)(x)"),
    ("torch-operator", "return getattr(torch, 'mm')(x, x)"),
    ("torch-operator", "return getattr(torch, 'm' + 'm')(x, x)"),
    ("torch-operator", "return getattr(x, 'matmul')(x)"),
    ("torch-operator", "return torch.__dict__['mm'](x, x)"),
    ("torch-operator", "return vars(torch)['mm'](x, x)"),
    ("torch-operator", "return torch.__getattribute__('mm')(x, x)"),
    ("torch-operator", "return __import__('torch').mm(x, x)"),
    ("torch-operator", "import torch as t; g = t; f = g.mm; return f(x, x)"),
    ("torch-operator", "from torch import mm as f; return f(x, x)"),
    ("torch-operator", "return torch.ops.aten.mm.default(x, x)"),
    ("torch-operator", "return torch.ops.aten.convolution(x, x)"),
    ("torch-operator", "return torch._C._VariableFunctions.mm(x, x)"),
    ("torch-operator", "return torch.nn.functional.torch.mm(x, x)"),
    ("torch-operator", "import functools; return functools.partial(torch.mm, x)(x)"),
    ("torch-operator", "return {'f': torch.einsum}['f']('ij,jk', x, x)"),
    ("torch-operator", "import operator; return operator.matmul(x, x)"),
    ("torch-operator", "return torch.linalg.multi_dot([x, x])"),
    ("torch-operator", "return torch.fft.rfft(x)"),
    ("torch-operator", "return nn.functional._scaled_dot_product_attention(x)"),
    ("torch-operator", "return [torch.softmax for _ in x][0](x, 0)"),
    ("torch-operator", "if (f := torch.bmm): return f(x, x)"),
    ("torch-operator", "def inner(y): return torch.mm(y, y)\nreturn inner(x)"),
    ("torch-operator", "return (lambda y: y @ y)(x)"),
    ("torch-operator", "return torch.ops.mkldnn._linear_pointwise(x)"),
    ("torch-operator", "def f(y, mm=torch.mm): return mm(y, y)\nreturn f(x)"),
    ("torch-operator", "return torch.matmul.__call__(x, x)"),
    (None, "return torch.empty_like(x).copy_(x.t().contiguous())"),
    (None, "return torch.relu(x).sum(-1) + x.mean() * self.weight"),
    (None, "return F.pad(x, (1, 1)) + F.unfold(x, 3)"),
    (None, "return torch.cat([x, x]).to(torch.float16).permute(1, 0)"),
    (None, "mm = scale; mm[(1,)](x, x, 1, BLOCK=8)"),
    (None, "return 'x @ x torch.mm'"),
    (None, "return x  # torch.mm(x, x)"),
    (None, '"""torch.mm(x, x)"""\nreturn x'),
    (None, "@triton.jit\ndef k(a, b): return tl.dot(a, b) @ a\nreturn k"),
]
TOPS = [
    ("torch-operator", "return helper(x)", "def helper(y): return torch.mm(y, y)"),
    ("torch-operator", "return globals()['helper'](x)", "def helper(y): return torch.mm(y, y)"),
    ("torch-operator", "return f(x, x)", "f = torch.mm"),
    ("torch-operator", "return f(x, x)", "from torch import *\nf = mm"),
    ("torch-operator", "return f()(x, x)", "def f(): return torch.mm"),
    ("torch-operator", "return O.f(x, x)", "class O:\n    f = staticmethod(torch.mm)"),
    ("torch-operator", "return Model()(x)", "class Model(nn.Module):\n    def forward(self, x): return x @ x"),
    ("torch-operator", "return Lin(3, 3)(x)", "class Lin(nn.Linear): pass"),
    (
        "torch-operator",
        "return Lin(3, 3)(x)",
        "class Lin(nn.Linear):\n    def forward(self, x): return super().forward(x)",
    ),
    ("torch-operator", "return k.fn(x)", "@triton.jit\ndef k(a): return torch.mm(a, a)"),
    ("timer", "return x", "import time\nSTART = time.time()"),
    ("patched-function", "return x", "class Unused:\n    torch.equal = None"),
    ("timer", "return x", "import time\ndef unused(start=time.time()): pass"),
    ("timer", "return x", "import time\n__name__ = '__main__'\nif __name__ == '__main__': time.time()"),
    ("timer", "return x", "import time\nif __name__ == '__main__': pass\nelse: time.time()"),
    (
        None,
        "return x",
        "import time\nif __name__ == '__main__':\n    print(time.time(), torch.mm(torch.ones(1, 1), 1))",
    ),
    (None, "return x", "class Model(nn.Module):\n    def forward(self, x): return x @ x"),
    (None, "return x", "import time\ndef bench(): return time.time()\nif __name__ == '__main__': bench()"),
    (None, "return x", "assert torch.allclose(torch.ones(2, 2) @ torch.ones(2, 2), 2 * torch.ones(2, 2))"),
    (None, "return mm(x)", "def mm(x): return x"),
    (None, "return ops.matmul(x)", "class ops:\n    def matmul(x): return x"),
    (None, "return open(x)", "def open(x): return x"),
    (
        None,
        "return Op.apply(x)",
        "class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x",
    ),
]
HONEST = """
import functools, itertools, logging, math, warnings
from dataclasses import dataclass
from triton.language.extra import libdevice
from triton.runtime import driver

log = logging.getLogger(__name__)
warnings.filterwarnings("ignore")
PROPERTIES = torch.cuda.is_available() and driver.active.utils.get_device_properties(torch.cuda.current_device())
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in itertools.product((64, 128), (4, 8))]


@dataclass
class Tile:
    rows: int = 64


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def product(x, y, n, BLOCK: tl.constexpr):
    a = tl.load(x + tl.arange(0, BLOCK))
    tl.store(y, tl.softmax(tl.dot(a, a)) + libdevice.tanh(a))


@torch.library.custom_op("own::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    product[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


class Double(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.ops.own.double(x)


def allocate(size: int, alignment: int, stream=None):
    return torch.empty(size, device="cuda", dtype=torch.int8)


@functools.lru_cache(maxsize=None)
def tile(dtype):
    return Tile(64 if dtype == torch.float16 else 32)
"""
TOPS.append(
    (None, "triton.set_allocator(allocate)\ntile(x.dtype)\nwith torch.no_grad(): return Double.apply(x)", HONEST)
)
INITS = [
    ("torch-operator", "return self.conv(x)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "return self.conv.forward(x)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "return self.conv._conv_forward(x, 1, 2)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "return nn.Conv2d.forward(self.conv, x)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "c = self.conv\nreturn c(x)", "self.conv = torch.nn.modules.conv.Conv2d(3, 3, 3)"),
    ("torch-operator", "return getattr(self, 'conv')(x)", "self.add_module('conv', nn.Conv2d(3, 3, 3))"),
    ("torch-operator", "return self.net(x)", "self.net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())"),
    ("torch-operator", "return self.net(x)", "layers = [nn.Linear(3, 3)]\nself.net = nn.Sequential(*layers)"),
    (
        "torch-operator",
        "for f in self.layers: x = f(x)",
        "self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in '12'])",
    ),
    ("torch-operator", "for f in self.children(): x = f(x)", "self.a = nn.Linear(3, 3)"),
    ("torch-operator", "return self._modules['a'](x)", "self.a = nn.Linear(3, 3)"),
    ("torch-operator", "for i in range(2): x = getattr(self, f'a{i}')(x)", "self.a0 = nn.Linear(3, 3)"),
    ("torch-operator", "def run(f): return f(x)\nreturn run(self.conv)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "return self.f(x, x)", "self.f = torch.mm"),
    ("torch-operator", "return self.f(x)", "self.f = lambda x: torch.mm(x, x)"),
    ("torch-operator", "return self.norm(x)", "self.norm = nn.LayerNorm(3)"),
    ("torch-compiler", "return self.f(x)", "self.f = torch.compile(self.other)"),
    ("torch-compiler", "return x", "self.forward = torch.jit.trace(self, 1)"),
    ("torch-operator", "return self.__getattr__('conv')(x)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "return nn.Module.__getattr__(self, 'conv')(x)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "return type(self.conv).forward(self.conv, x)", "self.conv = nn.Conv2d(3, 3, 3)"),
    ("torch-operator", "return self.conv.__class__.__call__(self.conv, x)", "self.conv = nn.Conv2d(3, 3, 3)"),
    (None, "return self.conv.weight.sum()", "self.conv = nn.Conv2d(3, 3, 3)"),
    (None, "return run(x, self.conv)", "self.conv = nn.Conv2d(3, 3, 3)"),
    (None, "return self.act(self.drop(x))", "self.act = nn.ReLU()\nself.drop = nn.Dropout()"),
    (None, "for f in self.layers: x = x + f.weight", "self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in '12'])"),
    (
        None,
        "return x",
        "nn.init.xavier_uniform_(self.weight); self.g = torch.softmax(torch.mm(self.weight, self.weight), 0)",
    ),
]
INITS += [
    (
        None,
        "return (x - self.bn.running_mean) * self.bn.weight + self.mask + self.lin.bias[: self.conv.stride[0]]",
        """self.conv, self.bn, self.lin = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.Linear(3, 3)
nn.init.kaiming_uniform_(self.lin.weight, a=5**0.5)
self.register_buffer("mask", torch.tril(torch.ones(3, 3)))
self.packed = self.conv.weight.detach().permute(2, 3, 1, 0).contiguous()""",
    ),
]
ON_CPU = [
    (
        None,
        "return list(POOL.map(len, [x]))",
        "from concurrent.futures import ThreadPoolExecutor\nPOOL = ThreadPoolExecutor(2)",
    ),
    ("background-thread", "return x", "import threading\nthreading.Thread(target=print).start()"),
    ("background-process", "return x", "import concurrent.futures as c\nc.ProcessPoolExecutor(2)"),
]
WITHOUT_TORCH = [
    ("torch-operator", "return torch.mm(x, x)"),
    ("torch-computes", "return torch.sum(x)"),
    ("torch-computes", "return F.relu(x)"),
    ("torch-computes", "return x.exp()"),
    ("torch-computes", "return torch.cat([x, x])"),
    (None, "return torch.empty(x.shape, dtype=torch.float16, device=x.device).view(-1).t()"),
    (None, "return torch.zeros_like(x.permute(1, 0).reshape(3, 3))"),
    (None, "return sum(x.shape) + max(1, 2)"),
]
WITH_ALL_OF_TORCH = [
    (None, "return torch.compile(lambda y: y @ y)(x)"),
    (None, "return torch.mm(x, x).softmax(-1) @ F.conv2d(x, nn.Linear(3, 3)(x))"),
    ("timer", "import time; time.time()"),
]
SOLVER = "def solved(a):\n    return torch.linalg.solve(a, a)\nTABLE = solved(torch.eye(2))"
"""A table that is computed when the file is loaded, and what may not be done with its function."""
TOPS += [
    (None, "return x", SOLVER),
    (None, "return x", "import numpy as np\nTABLE = np.linalg.solve(np.eye(2), np.ones((2, 2)))"),
    (None, "return torch.einsum('ij -> ji', self.weight)", ""),
    (None, "return torch.einsum('bhd->hbd', x)", ""),
    ("torch-operator", "return solved(x)", SOLVER),
    ("torch-operator", "return run(x)", f"{SOLVER}\nrun = solved"),
    ("torch-operator", "return globals()['solved'](x)", SOLVER),
    ("torch-operator", "return twice(x)", f"{SOLVER}\ndef twice(a):\n    return solved(a)\ntwice(torch.eye(2))"),
    ("torch-operator", "return x", SOLVER.replace("def", "import functools\n@functools.cache\ndef")),
    ("torch-operator", "return torch.einsum('ij->i', x)", ""),
    ("torch-operator", "return torch.einsum('ii->ii', x)", ""),
    ("torch-operator", "return torch.einsum('ij,jk->ik', x, x)", ""),
    ("other-library", "return run(x, x)", "import numpy as np\nrun = np.linalg.solve"),
    ("other-library", "return np.linalg.solve(x, x)", "import numpy as np"),
]
INITS += [
    (None, "return x", "import numpy as np\nself.m = np.dot(np.eye(2), np.ones((2, 2)))"),
    (None, "return x", "self.m = torch.eye(2) @ torch.ones(2, 2)"),
    ("other-library", "return self.f(x, x)", "import numpy as np\nself.f = np.dot"),
]
SNIPPETS = _pairs()
