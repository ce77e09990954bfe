"""A user's function with a patch applied: its package with the changed files, for another check."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...core import Config, Evaluator, JointProblem, KernelError, KernelwrightError, PythonKernel, TorchProblem
from ...core.user_package import CandidateText, UserPackage
from .autotuning import list_of_configs
from .modules import functions_of
from .text_edits import with_expressions
from .translation import UserFunction


def require_correct(
    function: UserFunction, problem: TorchProblem, evaluator: Evaluator, files: Mapping[Path, str]
) -> None:
    """Import the function's package in new processes with these texts of its files, and check it again.

    Raises `KernelError` if it cannot be imported or is not correct.
    """
    try:
        (found,) = evaluator.evaluate(*patched(function, problem, files), [Config()])
        why = "" if found.correct else f"{found.status}: {found.message}"
    except KernelwrightError as error:
        why = str(error)
    if why:
        changed = ", ".join(module.label for module in function.package.modules if module.path in files)
        raise KernelError(f"no patch is written, since the package with the changed {changed} fails its check: {why}")


def patched(
    function: UserFunction, problem: TorchProblem, files: Mapping[Path, str]
) -> tuple[TorchProblem, PythonKernel]:
    """Return the problem and the kernel of a function whose files have these texts.

    The kernel has no parameters: it is the unchanged files, except that each list of configs that a patch may write has
    only its first config, against which an autotuner would measure the others.
    """
    own = function.package
    modules = tuple(replace(item, text=files.get(item.path, item.text)) for item in own.modules)
    package = replace(own, modules=modules, patched=True)
    texts = {item.label: item.text for item in modules}
    for autotuned in function.kernels:
        label = next(item.label for item in modules if item.name == autotuned.module)
        texts[label] = _with_first_config(texts[label], autotuned.kernel)
    source = CandidateText("", texts, own.call).source
    kernel = function.kernel
    return of_package(problem, package), PythonKernel(kernel.language, kernel.target, source, kernel.name)


def of_package(problem: TorchProblem, package: UserPackage) -> TorchProblem:
    """Return a problem, at all of its workloads, whose processes import another package."""
    found = replace(problem, package=package)
    if isinstance(found, JointProblem):
        members = {name: replace(member, package=package) for name, member in found.members.items()}
        found = replace(found, members=members)
    return found


def _with_first_config(text: str, kernel: str) -> str:
    """Return a module's text with one config in the list of a kernel, on as many lines."""
    edits = []
    for function in functions_of(text):
        configs = list_of_configs(function) if function.name == kernel else None
        if isinstance(configs, ast.List) and len(configs.elts) > 1:
            lines = (configs.end_lineno or configs.lineno) - configs.lineno
            edits.append((configs, f"[{ast.unparse(configs.elts[0])}{chr(10) * lines}]"))
    return with_expressions(text, edits)
