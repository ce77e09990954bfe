"""Compares the search by the launch with the joint search at equal trials, on modules of two to five kernels.

    python benchmarks/search_by_launch.py [--device cpu|cuda] [--only WORD] [--most 10] [--trials 60] [--seeds 5]
                                          [--journals DIR] [--json FILE]
    python benchmarks/search_by_launch.py --record FILE [--only WORD]
    python benchmarks/search_by_launch.py --tables FILE [--trials 60] [--seeds 5] [--json FILE]

On a CPU modules are composed of TileLang kernels (launch_modules.py); on a GPU they are those of benchmarks/modules
whose start of structures, or of torch.compile's code, has at least two independent groups of parameters. All searches
of a module run side by side: what one has measured is not measured again for another. At the end the best of each is
timed interleaved. `--journals` keeps the trials, and a later run goes on from them.

`--record` measures every part of every group once, of modules that the file does not have, and `--tables` searches in
these times, without a device. Printed are the trials until one is within 2 % of the best that is known, and how much
slower the search's best is.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from command import run_benchmark
from environment import tuners_environment
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.agent.first_kernels.from_structures import structured_kernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.core import Config, Evaluation, Journal, Kernel, KernelwrightError, SearchSpace, TorchProblem, Tuner
from kernelwright.core.environment import cores
from kernelwright.core.files import cache_folder
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import find_problem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, SearchSettings, Settings
from kernelwright.tuners import catalogue
from kernelwright.tuners.by_launch.creation import tuner_for
from kernelwright.tuners.by_launch.groups import LaunchGroup, described, launch_groups
from kernelwright.tuners.by_launch.tuner import ByLaunch
from kernelwright.tuners.grid import Grid
from launch_modules import MODULES, module_of
from side_by_side import SideBySide

MODULES_ON_GPU = Path(__file__).with_name("modules")
WITHIN = 1.02
TUNER = "portfolio"
KINDS = ("joint", "by launch")
Module = tuple[TorchProblem, Kernel, SearchSpace]


class NoTuner:
    """Asks for nothing: what is left when each group was recorded."""

    def ask(self, n: int = 1) -> list[Config]:
        return []

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        pass


def modules(device: str, evaluator: LocalEvaluator, only: str, most: int) -> Iterator[Module]:
    """Yield modules with at least two groups of parameters."""
    found = 0
    for name in MODULES if device == "cpu" else sorted(path.stem for path in MODULES_ON_GPU.glob("*.py")):
        if only not in name or found == most:
            continue
        starts = [module_of(name)] if device == "cpu" else starts_of(MODULES_ON_GPU / f"{name}.py", evaluator)
        for problem, kernel in starts:
            space = declared_space(kernel, problem)
            if space is not None and launch_groups(kernel, space):
                found += 1
                yield problem, kernel, space
                break
        else:
            print(f"{name}: no start with several groups of parameters", flush=True)


def starts_of(path: Path, evaluator: LocalEvaluator) -> Iterator[tuple[TorchProblem, Kernel]]:
    """Yield first kernels of a module that work: of structures, and of torch.compile's code."""
    problem = find_problem(str(path)).read()
    for make in (structures, inductor):
        try:
            kernel = make(problem, evaluator)
            (found,) = evaluator.evaluate(problem, kernel, [Config()])
            if found.ok:
                yield problem, kernel
        except KernelwrightError as error:
            print(f"{path.stem}: {error}", flush=True)
        except UnsupportedCodeError as error:
            print(f"{path.stem}: {error}", flush=True)


def structures(problem: TorchProblem, evaluator: LocalEvaluator) -> Kernel:
    graph = evaluator.operator_graph(problem)
    if isinstance(graph, str):
        raise UnsupportedCodeError(graph)
    return structured_kernel(problem, graph)


def inductor(problem: TorchProblem, evaluator: LocalEvaluator) -> Kernel:
    code = evaluator.generated_code(problem)
    if not isinstance(code, GeneratedCode):
        raise UnsupportedCodeError(code)
    return first_kernel(problem, code)


def tuner(kind: str, kernel: Kernel, space: SearchSpace, seed: int) -> Tuner:
    start = [space.default, *kernel.configs_in(space)]
    if kind == "joint":
        return catalogue.create_tuner(TUNER, space, seed, start=start)
    return tuner_for(kernel, TUNER, space, seed, start=start)


def trials_to(times: Sequence[float | None], best_ms: float) -> int | None:
    """Return the number of the first trial that is within 2 % of a time."""
    near = (number for number, ms in enumerate(times, start=1) if ms is not None and ms <= WITHIN * best_ms)
    return next(near, None)


def searched(module: Module, searcher: LocalEvaluator, options: Any, folder: Path) -> dict[str, Any]:
    """Search a module from several seeds, both ways."""
    problem, kernel, space = module
    names = {f"{kind} {seed}": (kind, seed) for seed in range(options.seeds) for kind in KINDS}
    tuners = {name: tuner(kind, kernel, space, seed) for name, (kind, seed) in names.items()}
    with Journal(folder / f"{kernel.name}_{kernel.digest}.jsonl") as journal:
        together = SideBySide(tuners, options.trials, journal, lambda name, evaluation: None)
        together.run(searcher, problem, kernel)
    best = {
        name: min(timed(trials), key=lambda item: item.latency_ms or 0.0) for name, trials in together.trials.items()
    }
    combined = {
        f"{name} together": config
        for name, item in tuners.items()
        if isinstance(item, ByLaunch) and (config := item.together()) is not None
    }
    ends = {name: Config(item.config) for name, item in best.items()} | combined
    configs = list(dict.fromkeys(ends.values()))
    finals = dict(zip(configs, searcher.compare(problem, kernel, configs), strict=True))
    final_ms = {name: finals[config].latency_ms for name, config in ends.items()}
    known_ms = min(item.latency_ms or math.inf for item in best.values())
    times = {name: [item.latency_ms for item in trials] for name, trials in together.trials.items()}
    return row_of(kernel.name, kernel, space, times, known_ms) | {"final_ms": final_ms, "measured": together.measured}


def timed(trials: Sequence[Evaluation]) -> list[Evaluation]:
    return [item for item in trials if item.latency_ms is not None]


def row_of(
    name: str, kernel: Kernel, space: SearchSpace, times: Mapping[str, Sequence[float | None]], best_ms: float
) -> dict[str, Any]:
    """Return a module's row from the times of the trials of each search."""
    row: dict[str, Any] = {
        "module": name,
        "groups": described(launch_groups(kernel, space)),
        "configs": space.cardinality,
        "best_known_ms": best_ms,
    }
    for kind in KINDS:
        its = [items for search, items in times.items() if search.rpartition(" ")[0] == kind]
        found = [min(ms for ms in items if ms is not None) for items in its]
        row[kind] = {
            "trials_to_2_percent": [trials_to(items, best_ms) for items in its],
            "best_over_known": [round(ms / best_ms, 4) for ms in found],
        }
    return row


def recorded(module: Module, searcher: LocalEvaluator) -> dict[str, Any]:
    """Measure every part of every group once."""
    problem, kernel, space = module
    groups = launch_groups(kernel, space)
    grids = [(group, Grid(group.space)) for group in groups]
    asking = ByLaunch(space, grids, NoTuner(), space.default)
    tables: list[dict[Config, float]] = [{} for _ in groups]
    others, trials = list[float](), 0

    def configs() -> Iterator[Config]:
        while found := asking.ask(1):
            yield found[0]

    for evaluation in searcher.evaluate(problem, kernel, configs()):
        trials += 1
        asking.tell(Config(evaluation.config), evaluation)
        for group, table in zip(groups, tables, strict=True):
            own = [ms for name, ms in evaluation.launches_ms.items() if name in group.launches]
            if own:
                part = group.part(Config(evaluation.config))
                table[part] = min(sum(own), table.get(part, math.inf))
        if evaluation.latency_ms is not None:
            others.append(evaluation.latency_ms - sum(evaluation.launches_ms.values()))
    parts = [[[*part.values(), round(ms, 5)] for part, ms in table.items()] for table in tables]
    named = [{"names": list(group.space.names), "parts": rows} for group, rows in zip(groups, parts, strict=True)]
    return {"trials": trials, "others_ms": max(0.0, statistics.median(others)), "groups": named}


class Table:
    """The recorded times of a module's launches, as an evaluator of its configs."""

    def __init__(self, record: Mapping[str, Any], groups: Sequence[LaunchGroup]) -> None:
        self._groups = groups
        self._others_ms = record["others_ms"]
        self._times = [
            {Config(zip(item["names"], row[:-1], strict=True)): row[-1] for row in item["parts"]}
            for item in record["groups"]
        ]
        self.best_ms = self._others_ms + sum(min(times.values()) for times in self._times)

    def evaluation(self, config: Config) -> Evaluation:
        own = [times.get(group.part(config)) for group, times in zip(self._groups, self._times, strict=True)]
        if None in own:
            return Evaluation.recorded(config, None)
        found = Evaluation.recorded(config, self._others_ms + sum(ms or 0.0 for ms in own))
        launches = {min(group.launches): ms for group, ms in zip(self._groups, own, strict=True)}
        return found.model_copy(update={"launches_ms": launches})


def simulated(name: str, record: Mapping[str, Any], options: Any) -> dict[str, Any]:
    """Search in the recorded times of a module from several seeds, both ways."""
    problem, kernel = module_of(name)
    space = declared_space(kernel, problem)
    assert space is not None
    table = Table(record, launch_groups(kernel, space))
    times: dict[str, list[float | None]] = {}
    for seed in range(options.seeds):
        for kind in KINDS:
            asking, its = tuner(kind, kernel, space, seed), times.setdefault(f"{kind} {seed}", [])
            while len(its) < options.trials and (found := asking.ask(1)):
                evaluation = table.evaluation(found[0])
                asking.tell(found[0], evaluation)
                its.append(evaluation.latency_ms)
    return row_of(name, kernel, space, times, table.best_ms)


def summary(rows: Sequence[Mapping[str, Any]], trials: int) -> str:
    """Return a table: a search that came to no trial within 2 % counts as one more than its trials."""
    lines = [f"{'module':40} {'configs':>10}  {'joint':>14}  {'by launch':>14}   trials to 2 % (best over known)"]
    for row in rows:
        cells = []
        for kind in KINDS:
            needed = statistics.median(item or trials + 1 for item in row[kind]["trials_to_2_percent"])
            text = f"{needed:g}" if needed <= trials else f">{trials}"
            cells.append(f"{text:>6} ({statistics.median(row[kind]['best_over_known']):.3f})")
        lines.append(f"{row['module']:40} {row['configs']:>10}  {cells[0]:>14}  {cells[1]:>14}")
        if "final_ms" in row:
            ends = {kind: statistics.median(ends_of(row["final_ms"], kind)) for kind in KINDS}
            lines.append(f"{'':40} compared: " + ", ".join(f"{kind} {ms:.4f} ms" for kind, ms in ends.items()))
    return "\n".join(lines)


def ends_of(final_ms: Mapping[str, float | None], kind: str) -> list[float]:
    """Return what each search of a kind came to in the comparison: its best trial, or the fastest parts together."""
    seeds: dict[str, list[float]] = {}
    for name, ms in final_ms.items():
        if name.startswith(kind) and ms is not None:
            seeds.setdefault(name.removesuffix(" together"), []).append(ms)
    return [min(times) for times in seeds.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", default="", help="take modules whose name has this word")
    parser.add_argument("--most", type=int, default=10, help="modules at most")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--journals", type=Path)
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--tables", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.tables:
        tables = json.loads(options.tables.read_text())["modules"]
        rows = [simulated(name, record, options) for name, record in tables.items() if options.only in name]
        environment = tuners_environment()
    else:
        rows, environment = measured(options)
    if rows:
        print(summary(rows, options.trials))
    if options.json and rows:
        record = {"trials": options.trials, "seeds": options.seeds, "environment": environment, "modules": rows}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


def measured(options: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Measure modules on a device; the rows of searches, none where tables are recorded."""
    on_cpu = options.device == "cpu"
    settings = Settings(allow_torch=AllowTorch.ALL, second_workload=False)
    compilers = max(1, cores() // (1 if on_cpu else 2))
    search = SearchSettings(compilers=compilers, window=2 * compilers)
    rows, environment = list[dict[str, Any]](), dict[str, str]()
    with (
        LocalEvaluator(options.device, settings, cache_folder()) as evaluator,
        evaluator.beside(replace(settings, search=search)) as searcher,
        tempfile.TemporaryDirectory() as scratch,
    ):
        folder = options.journals or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        there = options.record is not None and options.record.exists()
        known: dict[str, Any] = json.loads(options.record.read_text())["modules"] if there else {}
        for module in modules(options.device, evaluator, options.only, options.most):
            environment = evaluator.environment(module[0])
            if module[1].name in known:
                continue
            if options.record:
                known[module[1].name] = recorded(module, searcher)
                options.record.write_text(json.dumps({"environment": environment, "modules": known}) + "\n")
                print(f"{module[1].name}: {known[module[1].name]['trials']} trials", flush=True)
            else:
                rows.append(searched(module, searcher, options, folder))
                print(json.dumps(rows[-1])[:600], flush=True)
    return rows, environment


if __name__ == "__main__":
    run_benchmark(main)
