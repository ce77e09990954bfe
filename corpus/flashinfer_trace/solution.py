"""A Solution as a kernel file with `ModelNew`, and a kernel file as a Solution."""

from __future__ import annotations

import ast
import re

from ...core import KernelError, PythonKernel, Target
from ...core.language import backend, recognize
from ...core.syntax_tree import expression_tree
from ...core.user_package import MODEL, CandidateText, stands_alone
from .definition import Definition, TensorSpec
from .schema import BuildSpec, Solution, SourceFile
from .sol_execbench import ExprAxis
from .solution_files import SolutionFiles

FILE = "kernel.py"
_CLASS = "ModelNew"
_ENTRY = "\n\n# The entry point of a Solution; what follows is left out when it is read as a kernel.\n"
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
_REPLAYABLE = frozenset({"triton", "tilelang"})
_BESIDE = frozenset({"pytorch"})
"""Languages that may be listed in addition: they are Python, and the kernel's rules say what of them may be used."""


def kernel_of(solution: Solution, definition: Definition) -> PythonKernel:
    """Return a Solution as a kernel; raises `KernelError` for one that is not written in Triton or TileLang."""
    where, spec = f"Solution {solution.name}", solution.spec
    languages = set(spec.languages or (spec.language,))
    if not languages & _REPLAYABLE or languages - _REPLAYABLE - _BESIDE:
        written = ", ".join(sorted(map(str, languages)))
        raise KernelError(
            f"{where} is written in {written}; only Solutions in Triton or TileLang can be evaluated here"
        )
    if (ours := _kernel_file(solution)) is not None:
        return PythonKernel.parse(ours, name=solution.name)
    try:
        files = SolutionFiles.of(solution)
    except KernelError as error:
        raise KernelError(f"{where}: {error}") from None
    model = _model(definition, spec.function, spec.destination_passing_style)
    if files.is_one and _CLASS not in files.entry_names:
        source = files.entry_text + model
    else:
        call = f"from {files.entry} import {spec.function}\n{model}"
        source = CandidateText("", files.texts, call, MODEL).source
    return PythonKernel.parse(source, name=solution.name)


def backend_of(solution: Solution) -> str | None:
    """Return the backend of a Solution, such as 'triton', from its imports; None for one that is not a kernel here."""
    if not set(solution.spec.languages or (solution.spec.language,)) & _REPLAYABLE:
        return None
    modules = {module for source in solution.sources for module in _IMPORTED.findall(source.content)}
    found = recognize(modules)
    return backend(*found) if found else None


def solution_of(
    kernel: PythonKernel, definition: Definition, author: str, hardware: str, description: str = "", sol: bool = False
) -> Solution:
    """Return a kernel as a Solution, in SOL-ExecBench's form if `sol`; it returns its outputs.

    Raises `KernelError` for a language that the form does not have.
    """
    language = kernel.language.id
    if language not in _REPLAYABLE or (sol and language != "triton"):
        raise KernelError(
            f"{'SOL-ExecBench' if sol else 'flashinfer-trace'} has no Solutions in {kernel.language.name}"
        )
    first = next((name for name, tensor in definition.inputs.items() if tensor.shape is not None), None)
    if first is None:
        raise KernelError(f"Definition {definition.name} has no tensor among its inputs, so no device to run on")
    taken = set(re.findall(r"\w+", kernel.source))
    run, model, inputs = _free("run", taken), _free("model_on", taken), ", ".join(definition.inputs)
    entry = (
        f"import functools\n\n\n@functools.cache\ndef {model}(device):\n    return ModelNew().to(device)\n\n\n"
        f"def {run}({inputs}):\n    return {model}({first}.device)({inputs})\n"
    )
    form = {"languages": (language,)} if sol else {"language": language}
    return Solution(
        name=f"{definition.name}_{kernel.backend}_{kernel.digest[:8]}",
        definition=definition.name,
        author=author,
        description=description or None,
        spec=BuildSpec(
            **form,
            target_hardware=("LOCAL",) if sol else (_hardware(kernel, hardware),),
            entry_point=f"{_sources(kernel.source, entry)[0].path}::{run}",
            dependencies=("torch", language),
            destination_passing_style=False,
        ),
        sources=_sources(kernel.source, entry),
    )


def _sources(source: str, entry: str) -> tuple[SourceFile, ...]:
    """Return the files of a Solution for a kernel's text: its parts, if it has several, with the entry point's last.

    Each file gets the parameters and its imports from other parts.
    """
    if not stands_alone(source):
        return (SourceFile(path=FILE, content=source.rstrip() + "\n" + _ENTRY + entry),)
    text = CandidateText.of(source)
    files = {label: text.standing_alone(label) for label in text.files}
    main = SourceFile(path=_free(FILE, set(files)), content=text.call.rstrip() + "\n" + _ENTRY + entry)
    return (main, *(SourceFile(path=label, content=content) for label, content in files.items()))


def _hardware(kernel: PythonKernel, device: str) -> str:
    return "cpu" if kernel.target is Target.CPU else re.sub(r"\s+", "_", device)


def _kernel_file(solution: Solution) -> str | None:
    """Return the kernel file from which `solution_of` made a Solution; None for Solutions of others."""
    first, *others = solution.sources
    parts = first.content.partition(_ENTRY)
    if not parts[1]:
        return None
    files = {item.path: item.content for item in others}
    return CandidateText("", files, parts[0], MODEL).source if files else parts[0]


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _model(definition: Definition, function: str, destinations: bool) -> str:
    """Return a `ModelNew` that calls the entry point, and allocates the outputs if it expects them as arguments."""
    taken = {"self", "torch", function}
    inputs = {name: _free(name, taken) for name in definition.inputs}
    lines = ["", "", "import torch", "", "", f"class {_CLASS}(torch.nn.Module):"]
    lines += [f"    def forward({', '.join(['self', *inputs.values()])}):"]
    if not destinations:
        return "\n".join([*lines, f"        return {function}({', '.join(inputs.values())})", ""])
    device = next((inputs[name] for name, tensor in definition.inputs.items() if tensor.shape is not None), None)
    if device is None:
        raise KernelError(f"Definition {definition.name} has no tensor among its inputs, so no device for its outputs")
    outputs = {name: _free(name, {*taken, *inputs.values()}) for name in definition.outputs}
    for name, tensor in definition.outputs.items():
        shape = "".join(f"{extent}, " for extent in _extents(definition, name, tensor, inputs)).rstrip()
        lines.append(
            f"        {outputs[name]} = torch.empty(({shape}), dtype=torch.{tensor.dtype}, device={device}.device)"
        )
    lines += [f"        {function}({', '.join([*inputs.values(), *outputs.values()])})"]
    return "\n".join([*lines, f"        return {', '.join(outputs.values())}", ""])


def _extents(definition: Definition, output: str, tensor: TensorSpec, inputs: dict[str, str]) -> list[str]:
    """Return an output's extents as expressions over the inputs."""
    known: dict[str, str] = {}
    for name, axis in definition.axes.items():
        if (value := getattr(axis, "value", None)) is not None:
            known[name] = str(value)
    for name, given in definition.inputs.items():
        for place, axis_name in enumerate(given.shape or ()):
            known.setdefault(axis_name, f"{inputs[name]}.shape[{place}]")
    found = []
    for axis_name in tensor.shape or ():
        follows = definition.axes.get(axis_name)
        text = axis_name if follows is None else known.get(axis_name)
        if text is None and isinstance(follows, ExprAxis) and follows.names <= known.keys():
            text = f"int({_with_names(follows.expression, known)})"
        if text is None:
            raise KernelError(
                f"Definition {definition.name}: no input has the axis {axis_name} of the output {output}, so a "
                "Solution in destination-passing style cannot be called; write one that returns its outputs"
            )
        found.append(text)
    return found


def _with_names(expression: str, known: dict[str, str]) -> str:
    class PutIn(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return expression_tree(known[node.id])

    return ast.unparse(PutIn().visit(expression_tree(expression)))
