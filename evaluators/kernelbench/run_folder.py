"""A KernelBench run folder: kernels, eval_results.json and a baseline, as its scripts read and write them.

    level_1_problem_19_sample_0_kernel.py    the kernels
    eval_results.json                        {"19": [{sample_id, compiled, correctness, metadata, runtime, ...}]}
    baseline_time_torch.json                 {"level1": {"19_ReLU.py": {mean, std, min, max, num_trials, ...}}}

Its analysis pairs results and baseline by position, so both are kept in the order of the problem numbers.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ...core import OptionError, Problem, ResultsError
from ...core.file_locks import locked
from ...core.files import write_whole
from ...core.text import BAD_DATA, data_problem
from .result import KernelBenchResult

RESULTS = "eval_results.json"
BASELINE = "baseline_time_torch.json"
STRICT = "strict_results.json"
"""Verdicts of the strict protocol, by problem and sample; KernelBench itself does not read them."""
_KERNEL = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py")
_PROBLEM = re.compile(r"level(\d+)/\1_(\d+)")
_Results = dict[str, list[dict[str, Any]]]
_Baseline = dict[str, dict[str, Any]]


class _StoredSample(BaseModel):
    sample_id: int
    correctness: bool
    runtime: float


class StrictResult(BaseModel):
    """The strict protocol's verdict on a kernel."""

    status: str
    """ok, or why it does not count."""
    speedup: float | None = None
    contention: float | None = None

    @property
    def counted(self) -> float | None:
        """The speedup, where it is proven and nothing disturbed it."""
        return self.speedup if self.status == "ok" and self.contention is None else None


class _Times(BaseModel):
    mean: float


_Number = Annotated[str, Field(pattern=r"^\d+(_.*)?$")]
_RESULTS: TypeAdapter[Any] = TypeAdapter(dict[Annotated[str, Field(pattern=r"^\d+$")], list[_StoredSample]])
_STRICT: TypeAdapter[dict[str, dict[str, StrictResult]]] = TypeAdapter(dict[str, dict[str, StrictResult]])
_BASELINE: TypeAdapter[Any] = TypeAdapter(dict[str, dict[_Number, _Times]])


@dataclass(frozen=True, order=True)
class Sample:
    """One kernel of a run: the problem's level and number, and the number of the attempt."""

    level: int
    problem: int
    sample: int

    @classmethod
    def of(cls, problem: Problem, sample: int) -> Sample:
        """Return the sample for a problem; raises `OptionError` for a problem without a KernelBench number."""
        match = _PROBLEM.fullmatch(problem.id)
        if match is None:
            raise OptionError(
                f"{problem.id} is not a KernelBench problem, and a run folder names kernels by their numbers"
            )
        return cls(int(match[1]), int(match[2]), sample)

    @property
    def problem_id(self) -> str:
        """The problem's id, such as 'level1/1_19'."""
        return f"level{self.level}/{self.level}_{self.problem}"

    @property
    def file_name(self) -> str:
        """The kernel's file name in KernelBench's form."""
        return f"level_{self.level}_problem_{self.problem}_sample_{self.sample}_kernel.py"


class RunFolder:
    """A run folder. Results are written atomically under a lock, so several commands may fill one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def samples(self) -> list[Sample]:
        """Return all kernels in the folder. Raises `OptionError` when there are none, or several levels."""
        try:
            names = [_KERNEL.fullmatch(path.name) for path in self.path.iterdir()]
        except OSError as error:
            raise OptionError(f"cannot read {self.path}: {error.strerror}") from None
        found = sorted(Sample(int(name[1]), int(name[2]), int(name[3])) for name in names if name)
        if not found:
            raise OptionError(f"{self.path} contains no level_*_problem_*_sample_*_kernel.py; add one by `kernel` REF")
        self._require_one_level({sample.level for sample in found})
        return found

    def has(self, sample: Sample) -> bool:
        """Return whether there is a result for the kernel."""
        return any(entry["sample_id"] == sample.sample for entry in self._results().get(str(sample.problem), []))

    def has_strict(self, sample: Sample) -> bool:
        """Return whether there is a strict verdict on the kernel that nothing disturbed."""
        found = self._strict().get(str(sample.problem), {}).get(str(sample.sample))
        return found is not None and found.contention is None

    def kernel(self, sample: Sample) -> Path:
        """Return the path of a kernel, which may not exist yet."""
        return self.path / sample.file_name

    def check(self, sample: Sample) -> None:
        """Raise `OptionError` for a kernel of another level, and `ResultsError` for a folder that cannot be used."""
        levels = {sample.level}
        with contextlib.suppress(OSError):
            names = [_KERNEL.fullmatch(path.name) for path in self.path.iterdir()]
            levels |= {int(name[1]) for name in names if name}
        self._require_one_level(levels)
        self._results()

    def _require_one_level(self, levels: set[int]) -> None:
        if len(levels) > 1:
            raise OptionError(
                f"`run_folder` {self.path} would hold levels {', '.join(map(str, sorted(levels)))}; KernelBench files "
                "results by the problem's number alone, so take one folder per level"
            )

    def add(
        self,
        sample: Sample,
        problem: Problem,
        source: str,
        result: KernelBenchResult,
        strict: StrictResult | None = None,
    ) -> None:
        """Write a kernel and its results."""
        self.check(sample)
        with self._locked():
            write_whole(self.kernel(sample), source)
        self.store(sample, problem, result, strict)

    def store(
        self, sample: Sample, problem: Problem, result: KernelBenchResult, strict: StrictResult | None = None
    ) -> None:
        """Write results, replacing earlier ones of the same sample, and the reference's time.

        A strict verdict on another text of the kernel does not stay.
        """
        with self._locked():
            verdicts = self._strict()
            verdicts.setdefault(str(sample.problem), {}).pop(str(sample.sample), None)
            if strict is not None:
                verdicts[str(sample.problem)][str(sample.sample)] = strict
            if strict is not None or (self.path / STRICT).exists():
                kept = {number: some for number, some in verdicts.items() if some}
                write_whole(self.path / STRICT, _STRICT.dump_json(_by_number(kept), indent=4).decode())
            results = self._results()
            entries = [entry for entry in results.get(str(sample.problem), []) if entry["sample_id"] != sample.sample]
            entries.append(result.record(sample.sample))
            results[str(sample.problem)] = sorted(entries, key=lambda entry: entry["sample_id"])
            write_whole(self.path / RESULTS, json.dumps(_by_number(results), indent=4))
            if result.ref_runtime_stats is not None:
                baseline = self._baseline()
                times = baseline.setdefault(f"level{sample.level}", {})
                times[f"{problem.name}.py"] = result.ref_runtime_stats.model_dump()
                baseline[f"level{sample.level}"] = _by_number(times)
                write_whole(self.path / BASELINE, json.dumps(baseline, indent=4))

    def speedups(self, sample_id: int = 0) -> dict[int, float | None]:
        """Return the speedup of one sample of each problem, by number; None if wrong, not timed or missing."""
        times = {_number(name): stats["mean"] for level in self._baseline().values() for name, stats in level.items()}
        found: dict[int, float | None] = {}
        for number, entries in self._results().items():
            runtimes = [
                entry["runtime"] for entry in entries if entry["sample_id"] == sample_id and entry["correctness"]
            ]
            timed = runtimes and runtimes[0] > 0 and int(number) in times
            found[int(number)] = times[int(number)] / runtimes[0] if timed else None
        return found

    def strict_speedups(self, sample_id: int = 0) -> dict[int, float | None]:
        """Return the strict speedup of one sample of each problem with a result; None where none counts."""
        verdicts = self._strict()
        found = {number: verdicts.get(number, {}).get(str(sample_id)) for number in self._results()}
        return {int(number): result.counted if result else None for number, result in found.items()}

    def _strict(self) -> dict[str, dict[str, StrictResult]]:
        return _STRICT.validate_python(self._read(STRICT, _STRICT))

    def _results(self) -> _Results:
        return self._read(RESULTS, _RESULTS)

    def _baseline(self) -> _Baseline:
        return self._read(BASELINE, _BASELINE)

    def _read(self, name: str, form: TypeAdapter[Any]) -> dict[str, Any]:
        """Return a file's entries unchanged, since other tools may have added keys."""
        path = self.path / name
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            form.validate_python(found)
        except FileNotFoundError:
            return {}
        except ValidationError:
            raise ResultsError(f"{path} is not what KernelBench writes; move it away") from None
        except BAD_DATA as error:
            raise ResultsError(data_problem(path, error), "fix it or move it away") from None
        return found

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return locked(self.path / ".lock", "choose another `run_folder`")


def _by_number(items: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(items.items(), key=lambda item: _number(item[0])))


def _number(name: str) -> int:
    """Return the number that '19' and '19_ReLU.py' begin with."""
    return int(name.partition("_")[0])
