"""What the static check refuses, each beside similar code that is allowed.

`{body}` of a case is in forward, `{top}` at the top of the file, `{init}` in the constructor.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

from .snippet_bodies import BODIES

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
