"""The static check against what it must refuse, and against every correct kernel there is."""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from kernelwright.agent.rules import RULES as REWRITES
from kernelwright.agent.rules import Machine
from kernelwright.core import Kernel, PythonKernel, Target
from kernelwright.core.languages import TRITON
from kernelwright.evaluators.guards.rules import RULES
from kernelwright.evaluators.guards.source import find_violation, find_violations
from kernelwright.evaluators.settings import AllowTorch
from kernelwright.testing import attempted

from ...agent import rule_cases
from ...conftest import SCALE_KERNEL
from ...prompts.test_guides import GUIDES, imports, snippets
from ..test_cuda import KERNEL as CUDA_KERNEL
from .snippets import SNIPPETS, Snippet

ROOT = Path(__file__).parents[3]
FILES = sorted(
    [
        *(ROOT / "corpus" / "kernels").rglob("*.py"),
        *(ROOT / "corpus" / "examples").glob("*/*/before.py"),
        *(ROOT / "corpus" / "examples").glob("*/*/after.py"),
        *(ROOT / "results" / "samples").rglob("*.py"),
    ]
)
CASES = [value for value in vars(rule_cases).values() if isinstance(value, rule_cases.Case)]
MM = "import torch\nimport triton\nclass ModelNew:\n    def forward(self, x):\n        return {}\n"


def kernel_of(source: str, target: Target = Target.CUDA) -> Kernel:
    return PythonKernel(TRITON, target, source)


def check(snippet: Snippet) -> list[str]:
    kernel = kernel_of(snippet.source, Target(snippet.target))
    return [str(rejection) for rejection in find_violations(snippet.source, kernel, AllowTorch(snippet.allow))]


def nothing_in(kernel: Kernel) -> None:
    assert [str(rejection) for rejection in find_violations(kernel.source, kernel, AllowTorch.GLUE)] == []


@pytest.mark.parametrize(
    ("method", "body", "rules"),
    [
        ("prepare(self)", "return x", []),
        ("prepare(self)", "self.prepare(); return x", ["torch-operator"]),
        ("prepare(self)", "getattr(self, 'prepare')(); return x", ["torch-operator"]),
        ("prepare(self, x)", "return x", ["torch-operator"]),
        ("pack(self)", "return x", ["torch-operator"]),
    ],
)
def test_torch_may_pack_weights_where_no_call_does(method: str, body: str, rules: list[str]) -> None:
    source = MM.format("x").replace("return x", body)
    source += f"    def {method}:\n        self.folded = torch.mm(self.one, self.other)\n"
    assert [rejection.rule for rejection in find_violations(source, kernel_of(source), AllowTorch.GLUE)] == rules


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: f"{s.rule}: {s.top} {s.init} {s.body}"[:90])
def test_a_snippet_breaks_its_rule_and_no_other(snippet: Snippet) -> None:
    ast.parse(snippet.source)
    assert {found.split(" ")[0] for found in check(snippet)} == ({snippet.rule} if snippet.rule else set())


def test_every_rule_has_a_snippet_and_stands_in_the_documentation() -> None:
    text = (ROOT / "docs" / "guards.md").read_text()
    for name, rule in RULES.items():
        assert f"| `{name}` | {rule.does} | {rule.instead.format(language='the declared language')} |" in text
        assert name == "unreadable" or any(snippet.rule == name for snippet in SNIPPETS), name


def test_shipped_kernels_break_no_rule() -> None:
    assert len(FILES) > 100
    for path in FILES:
        nothing_in(PythonKernel.parse(path.read_text(), str(path)))


def test_what_rules_and_tests_write_breaks_no_rule() -> None:
    nothing_in(PythonKernel.parse(SCALE_KERNEL))
    nothing_in(PythonKernel.parse(CUDA_KERNEL))
    written = 0
    for case in CASES:
        nothing_in(case.kernel)
    for case in (rule_cases.ROW_SUM, rule_cases.PRODUCT, rule_cases.TWO_PASSES):
        for rule in REWRITES:
            rewritten = attempted(rule, case.kernel, Machine(cores=2))
            if rewritten is not None:
                written += 1
                nothing_in(rewritten.kernel)
    assert written >= 5


@pytest.mark.parametrize("guide", GUIDES)
def test_guides_break_no_rule(guide: str) -> None:
    for snippet in snippets(guide):
        nothing_in(kernel_of(f"{imports(guide)}\n{snippet.text}", Target.CPU if "cpu" in guide else Target.CUDA))


def test_a_verdict_says_which_line_and_what_to_do() -> None:
    source = MM.format("torch.mm(x, x)" + " + 0" * 50)
    rejection = find_violation(source, kernel_of(source), AllowTorch.GLUE)
    assert rejection is not None
    assert rejection.rule == "torch-operator"
    assert re.fullmatch(r"line 5: return torch\.mm\(x, x\).*\.\.\.", rejection.where)
    assert len(rejection.where) < 120
    assert rejection.why == (
        "torch.mm does the work of the kernel; write it in Triton, or allow it with --allow-torch all"
    )


def test_the_first_violation_by_line_is_reported() -> None:
    source = MM.format("torch.mm(x, x)") + "import time\ntime.time()\n"
    found = find_violations("open('a')\n" + source, kernel_of(source), AllowTorch.GLUE)
    assert [rejection.rule for rejection in found] == ["file-access", "torch-operator", "timer"]
    assert find_violation("open('a')\n" + source, kernel_of(source), AllowTorch.GLUE) == found[0]
    assert (
        find_violation(source, kernel_of(source), AllowTorch.ALL)
        == find_violations(source, kernel_of(source), AllowTorch.ALL)[0]
    )


@pytest.mark.parametrize("source", ["def f(:", "x = '\0'", "", "class"])
def test_what_is_no_python_is_left_to_the_compiler(source: str) -> None:
    assert find_violation(source, kernel_of(source), AllowTorch.NONE) is None


def test_it_never_raises_on_what_python_reads() -> None:
    """The standard library, and kernels with lines left out, doubled and exchanged."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"), key=lambda path: path.stat().st_size)[:60]
    chance = random.Random(5)
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    for path in chance.sample(FILES, 20):
        lines = path.read_text().splitlines(keepends=True)
        for _ in range(5):
            lines[chance.randrange(len(lines))] = chance.choice([chance.choice(lines), "pass\n", ""])
            sources.append("".join(lines))
    read = 0
    for source in sources:
        for policy in (AllowTorch.NONE, AllowTorch.GLUE):
            find_violations(source, kernel_of(source), policy)
        read += 1
    assert read > 150


@pytest.mark.parametrize(
    "body",
    [
        "+".join("x" for _ in range(3000)) + " + torch.mm(x, x)",
        "x" + ".t()" * 150 + ".mm(x)",
        "x if x else " * 90 + "torch.mm(x, x)",
        "(" * 60 + "torch.mm" + ")" * 60 + "(x, x)",
    ],
    ids=["a long sum", "a chain of methods", "many choices", "brackets"],
)
def test_depth_hides_nothing(body: str) -> None:
    assert find_violation(MM.format(body), kernel_of(""), AllowTorch.GLUE) is not None


@pytest.mark.parametrize("deep", ["-" * 100_000 + "x", "x" + "[0]" * 50_000, "not " * 50_000 + "x"])
def test_what_is_too_deep_to_read_is_refused(deep: str) -> None:
    rejection = find_violation(deep, kernel_of(deep), AllowTorch.ALL)
    assert rejection is not None
    assert rejection.rule == "unreadable"


@pytest.mark.parametrize(
    "top",
    [
        "a = b\nb = a\n",
        "class A(A): pass\nA().x.y()\n",
        "def f(x): return f(f)(x)\nf(f)\n",
        "from torch import *\nmm = mm\n",
    ],
)
def test_what_refers_to_itself_comes_to_an_end(top: str) -> None:
    source = top + MM.format("torch.mm(x, a, f, A)")
    assert find_violation(source, kernel_of(source), AllowTorch.GLUE) is not None


def test_it_is_quick_and_needs_no_torch() -> None:
    kernels = [PythonKernel.parse(path.read_text()) for path in FILES]
    start = time.process_time()
    for kernel in kernels:
        find_violations(kernel.source, kernel, AllowTorch.GLUE)
    assert (time.process_time() - start) / len(kernels) < 0.02
    code = "import sys; import kernelwright.evaluators.guards.source; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
