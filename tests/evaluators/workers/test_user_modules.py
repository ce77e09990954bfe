"""A candidate's texts in the places of a user's modules; each test has a process of its own, whose modules change."""

from __future__ import annotations

from pathlib import Path

from ...programs import run_program

FILES = {
    "__init__": "COUNT = []\nfrom .ops import f\n",
    "helpers": "from . import COUNT\nCOUNT.append(1)\ndef half(x):\n    return x / 2\n",
    "kernels": "from .helpers import half\n\ndef g(x):\n    return half(x) + SHIFT\n\n\nSHIFT = 1\n",
    "ops": "from .kernels import g\nfrom pathlib import Path\nHERE = Path(__file__).name\n\ndef f(x): return g(x)\n",
    "other": "from .kernels import g as taken\nfrom . import kernels\n",
}
START = """
import sys
from pathlib import Path
from kernelwright.core.user_package import CandidateText
from kernelwright.evaluators.workers.user_modules import CandidateModules

folder = Path(sys.argv[1])
names = {f"pkg/{name}.py": name for name in sys.argv[2].split()}
modules = {label: [f"pkg.{name}", str(folder / "pkg" / f"{name}.py")] for label, name in names.items()}
package = {"tops": {"pkg": str(folder / "pkg")}, "modules": modules}
loader = CandidateModules(package)
texts = {label: (folder / "pkg" / f"{name}.py").read_text() for label, name in names.items()}
CALL = "class ModelNew:\\n    def __call__(self, x):\\n        return f(x)\\n"

def load(serial, parameters="", **changes):
    files = {label: text.replace(*changes.get(names[label], ("", ""))) for label, text in texts.items()}
    path = Path(f"kernel_{serial}.py")
    path.write_text(CandidateText(parameters, files, CALL).source)
    return loader.load(f"candidate_{serial}", path)
"""


def run(folder: Path, program: str, listed: str = "kernels ops", **files: str) -> str:
    (folder / "pkg").mkdir()
    for name, text in {**FILES, **files}.items():
        (folder / "pkg" / f"{name}.py").write_text(text)
    (folder / "work").mkdir()
    done = run_program(START + program, [str(folder), listed], folder / "work", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_several_candidates_stay_loaded_each_with_its_own_texts(tmp_path: Path) -> None:
    program = """
first = load(1)
second = load(2, kernels=("half(x) + SHIFT", "half(x) * 10"))
third = load(3, parameters="SIZE = 7\\n", kernels=("SHIFT\\n\\n\\n", "SIZE\\n\\n\\n"))
print(*(module.ModelNew()(2.0) for module in (first, second, third)))
"""
    assert run(tmp_path, program) == "2.0 10.0 8.0"


def test_what_other_modules_took_is_new_and_nothing_else_is_executed_again(tmp_path: Path) -> None:
    program = """
import pkg, pkg.other
load(1, kernels=("half(x) + SHIFT", "half(x) * 10"))
print(pkg.f(2.0), pkg.other.taken(2.0), pkg.other.kernels.g(2.0), len(pkg.COUNT), sys.modules["pkg.ops"].HERE)
load(2, kernels=("half(x) + SHIFT", "half(x) * 20"))
print(pkg.f(2.0), pkg.other.taken(2.0), pkg.other.kernels.g(2.0))
load(3)
print(pkg.f(2.0), pkg.other.taken(2.0), pkg.other.kernels.g(2.0))
"""
    assert run(tmp_path, program).splitlines() == ["10.0 10.0 10.0 1 ops.py", "20.0 20.0 20.0", "2.0 2.0 2.0"]


def test_operators_of_a_library_that_another_module_holds_are_replaced(tmp_path: Path) -> None:
    libraries = """
from torch.library import Library
LIBRARY = Library("pkg_operators", "FRAGMENT")
def register(name, function):
    LIBRARY.define(f"{name}(float x) -> float")
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")
"""
    kernels = """
import torch
from .libraries import register
def add(x: float) -> float:
    return x + 1
register("add", add)
def g(x):
    return torch.ops.pkg_operators.add(x)
"""
    program = """
print(load(1).ModelNew()(2.0), load(2, kernels=("x + 1", "x + 5")).ModelNew()(2.0))
load(3, kernels=("x + 1", "x + 7"))
print(sys.modules["pkg.ops"].f(2.0))
"""
    assert run(tmp_path, program, libraries=libraries, kernels=kernels).splitlines() == ["3.0 7.0", "9.0"]


def test_an_unchanged_file_is_executed_again_only_where_it_takes_something_of_a_changed_one(tmp_path: Path) -> None:
    """What a package changes when it is imported is its own; executed again, it would count as the candidate's."""
    files = {
        "sizes": "WIDTH = 2\n",
        "switches": "import json\nfrom . import COUNT\nCOUNT.append('switches')\njson.dumps = lambda x: str(x)\n",
        "kernels": "from . import COUNT, sizes\nfrom .switches import json\nCOUNT.append('kernels')\n\n"
        "def g(x):\n    from . import sizes\n    return x * sizes.WIDTH\n",
        "ops": "from .sizes import WIDTH\nfrom .kernels import g\n\ndef f(x): return g(x) + WIDTH\n",
    }
    program = """
import json, pkg
before = json.dumps
pkg.COUNT.clear()
print(load(1, sizes=("2", "3")).ModelNew()(1.0), pkg.COUNT, json.dumps is before)
print(load(2, kernels=("x * ", "x - ")).ModelNew()(1.0), pkg.COUNT, json.dumps is before)
"""
    said = run(tmp_path, program, listed="sizes kernels switches ops", **files).splitlines()
    assert said == ["6.0 ['kernels'] True", "1.0 ['kernels', 'kernels'] True"]


def test_a_text_that_does_not_lead_to_the_changed_one_calls_it(tmp_path: Path) -> None:
    files = {
        "ops": "import pkg\n\ndef f(x):\n    return pkg.kernels.g(x)\n",
        "__init__": "COUNT = []\nfrom . import kernels\n",
    }
    program = "print(load(1, kernels=('half(x) + SHIFT', 'half(x) * 10')).ModelNew()(2.0))"
    assert run(tmp_path, program, **files) == "10.0"


def test_a_registry_that_refuses_a_name_twice_takes_the_new_function(tmp_path: Path) -> None:
    registry = """
KNOWN = {}
class Registry:
    def __init__(self):
        self.entries = {}
BY_NAME = Registry()
def register(function):
    assert function.__name__ not in KNOWN and function not in BY_NAME.entries.values(), f"twice: {function.__name__}"
    KNOWN[function.__name__] = BY_NAME.entries[function.__name__] = function
    return function
"""
    kernels = """
from .registry import register
@register
def g(x):
    return x + 1
def h(x):
    return x + 2
"""
    other = "from . import kernels, registry\nregistry.KNOWN['h'] = kernels.h\n"
    ops = """
from . import other, registry
def f(x):
    return registry.KNOWN["g"](x), registry.BY_NAME.entries["g"](x), registry.KNOWN["h"](x)
"""
    program = """
from pkg import registry
print(load(1, kernels=("x + 1", "x + 5")).ModelNew()(2.0))
try:
    load(2, kernels=("def h", "raise ValueError\\ndef h"))
except ValueError:
    print(registry.KNOWN["g"](2.0), registry.KNOWN["h"](2.0))
print(load(3, kernels=("x + 2", "x + 7")).ModelNew()(2.0))
print(load(4).ModelNew()(2.0))
"""
    said = run(tmp_path, program, registry=registry, kernels=kernels, other=other, ops=ops).splitlines()
    assert said == ["(7.0, 7.0, 4.0)", "3.0 4.0", "(3.0, 3.0, 9.0)", "(3.0, 3.0, 4.0)"]


def test_lines_are_those_of_the_users_file_and_compilers_find_the_text(tmp_path: Path) -> None:
    program = """
import inspect, traceback
module = load(1, parameters="A = 1\\nB = 2\\n", kernels=("half(x) + SHIFT", "half(x) / 0"))
print(inspect.getsource(sys.modules["pkg.kernels"].g).strip().splitlines()[-1])
try:
    module.ModelNew()(2.0)
except ZeroDivisionError as error:
    print(traceback.extract_tb(error.__traceback__)[-1].lineno)
"""
    assert run(tmp_path, program).splitlines() == ["return half(x) / 0", "4"]


def test_a_text_that_fails_leaves_the_modules_as_they_were(tmp_path: Path) -> None:
    program = """
import pkg.ops
try:
    load(1, kernels=("def g", "raise ValueError\\ndef g"))
except ValueError:
    print(sys.modules["pkg.kernels"].g(2.0), pkg.ops.f(2.0), load(2).ModelNew()(2.0))
"""
    assert run(tmp_path, program) == "2.0 2.0 2.0"


def test_a_name_that_another_part_imports_or_defines_is_there(tmp_path: Path) -> None:
    """A rule finds an import, or a constant that it wrote, somewhere in the text, and uses it in another file."""
    program = """
module = load(
    1,
    kernels=("half(x) + SHIFT", "half(x) + Path('a').stem.count('a') + LATER"),
    ops=("from pathlib import Path", "from pathlib import Path"),
    parameters="LATER = 5\\n",
)
print(module.ModelNew()(2.0))
"""
    assert run(tmp_path, program) == "7.0"


def test_a_package_that_cannot_be_imported_says_why_when_it_is_loaded(tmp_path: Path) -> None:
    program = """
sys.modules.pop("pkg")
for name in [name for name in sys.modules if name.startswith("pkg.")]:
    del sys.modules[name]
(folder / "pkg" / "ops.py").write_text("import no_such_library\\n")
loader = CandidateModules(package)
try:
    load(1)
except ImportError as error:
    print(error)
"""
    said = run(tmp_path, program)
    assert said.startswith(
        "pkg.kernels, pkg.ops cannot be imported: ModuleNotFoundError: No module named 'no_such_library'"
    )
    assert said.endswith("pkg/ops.py, line 1)")
