"""The JSON files of other tuners: Kernel Tuner's cache, and T4 results, the Auto-Tuning Association's format.

Kernel Tuner writes times in milliseconds. T4 states the unit of each measurement with it, and the unit of compilation
and run times once, as `metadata.timeunit`; without it they are seconds. Kernel Tuner's own T4 files
(`store_output_file`) lack it and use milliseconds; they are recognized by the key `compilation` instead of the
schema's `compilation_time`.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeGuard

from ..core import Config, Evaluation, SpaceError, Status
from .files import write_text
from .recording import RecordedResult, Recording, Results, collect, finite, integer

Json = dict[str, Any]

_CACHED_ERRORS = {
    "ErrorConfig": Status.RUNTIME_ERROR,
    "InvalidConfig": Status.REJECTED,
    "CompilationFailedConfig": Status.COMPILE_ERROR,
    "RuntimeFailedConfig": Status.RUNTIME_ERROR,
}
_NEVER_RAN = 1e20
"""Milliseconds. Kernel Tuner's time of an invalid config, in caches without names of errors; newer ones have more."""
_INVALIDITY = {
    Status.OK: "correct",
    Status.REJECTED: "constraints",
    Status.COMPILE_ERROR: "compile",
    Status.RUNTIME_ERROR: "runtime",
    Status.CRASHED: "runtime",
    Status.WRONG_VALUE: "correctness",
    Status.UNPROVEN: "correctness",
    Status.WRONG_SHAPE: "correctness",
    Status.WRONG_DTYPE: "correctness",
    Status.TIMEOUT: "timeout",
    Status.NOT_MEASURED: "runtime",
}
_STATUS = {word: status for status, word in reversed(_INVALIDITY.items())} | {
    "runtime": Status.RUNTIME_ERROR,
    "correctness": Status.WRONG_VALUE,
}
_MILLISECONDS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6} | {
    "seconds": 1e3, "milliseconds": 1.0, "microseconds": 1e-3, "nanoseconds": 1e-6
}  # fmt: skip


def load_json(text: str) -> Any:
    """Parse JSON; a Kernel Tuner cache that was not closed, or was cut off in its last entry, is completed.

    Raises ValueError for invalid JSON.
    """
    whole = text.strip()
    try:
        return json.loads(whole, parse_int=integer)
    except ValueError:
        if '"tune_params_keys"' not in whole:
            raise
    try:
        return json.loads(whole.removesuffix(",") + "}}", parse_int=integer)
    except ValueError:
        # One entry a line: drop the last one, which a killed search was writing.
        return json.loads(whole.rpartition("\n")[0].removesuffix(",") + "}}", parse_int=integer)


def parse_cache(cache: Json, path: Path) -> Results:
    """Return the results in a Kernel Tuner cache file; raises `SpaceError`, which names the invalid entry."""
    names = cache["tune_params_keys"]
    results: dict[Config, RecordedResult] = {}
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpaceError(f"{path} is a damaged Kernel Tuner cache: tune_params_keys is not a list of names; fix it")
    if not isinstance(cache["cache"], dict):
        raise SpaceError(f"{path} is a damaged Kernel Tuner cache: cache is no object; fix it")
    for key, entry in cache["cache"].items():
        where = f"{path}, cache entry {key!r}"
        if not isinstance(entry, dict):
            raise SpaceError(f"{where} is no object; remove it")
        results[_config(entry, names, where)] = _cached(entry, where)
    return results


def _cached(entry: Json, where: str) -> RecordedResult:
    compile_ms = entry.get("compile_time")
    compile_s = None if compile_ms is None else _finite_number(compile_ms, "compile_time", where, least=0.0) / 1e3
    errors = [value for value in entry.values() if isinstance(value, str) and value in _CACHED_ERRORS]
    if errors:
        return RecordedResult(None, _CACHED_ERRORS[errors[0]], compile_s)
    if "time" not in entry:
        raise SpaceError(f"{where} has no time; replay needs a search for the shortest time")
    time_ms = _finite_number(entry["time"], "time", where)
    if time_ms >= _NEVER_RAN:
        return RecordedResult(None, Status.REJECTED, compile_s)
    return RecordedResult(time_ms, Status.OK, compile_s, _metrics(entry.get("times"), "times", where))


def parse_t4(document: Json, path: Path) -> Results:
    """Return the results in a T4 file; raises `SpaceError`, which names the invalid one."""
    metadata = document.get("metadata")
    unit = metadata.get("timeunit") if isinstance(metadata, dict) else None
    results: dict[Config, RecordedResult] = {}
    names: Sequence[str] = ()
    for number, entry in enumerate(document["results"], start=1):
        where = f"{path}, result {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("configuration"), dict):
            raise SpaceError(f"{where} has no configuration; remove it or complete it as the T4 schema says")
        names = names or list(entry["configuration"])
        if other := sorted(set(entry["configuration"]) - set(names)):
            raise SpaceError(f"{where} has parameter {other[0]}, which the first one lacks; all must name the same")
        config = _config(entry["configuration"], names, where)
        if config in results:
            raise SpaceError(f"{where} repeats the configuration of an earlier one; remove one of the two")
        results[config] = _measured(entry, unit, where)
    return results


def _measured(entry: Json, unit: object, where: str) -> RecordedResult:
    invalidity = entry.get("invalidity")
    if not isinstance(invalidity, str) or invalidity not in _STATUS:
        raise SpaceError(f"{where}: invalidity is {reprlib.repr(invalidity)}; use one of {', '.join(sorted(_STATUS))}")
    times = entry.get("times")
    if not isinstance(times, dict):
        raise SpaceError(f"{where} has no times; complete it as the T4 schema says")
    by_kernel_tuner = "compilation" in times and "compilation_time" not in times
    factor = _factor(("ms" if by_kernel_tuner else "s") if unit is None else unit, where)
    compiled = times.get("compilation_time", times.get("compilation"))
    compile_s = None if compiled is None else _finite_number(compiled, "compilation_time", where, factor, 0.0) / 1e3
    measurements = list(_measurements(entry))
    status = _STATUS[invalidity]
    if status is not Status.OK:
        words = [m["value"] for m in measurements if m["name"] == "status"]
        precise = (item for item in Status if item in words and _INVALIDITY[item] == invalidity)
        return RecordedResult(None, next(precise, status), compile_s)
    samples = _metrics(times.get("runtimes"), "runtimes", where, factor)
    objectives = entry.get("objectives")
    if not isinstance(objectives, list | None):
        raise SpaceError(f"{where}: objectives is {reprlib.repr(objectives)}, which is not a list; fix or remove it")
    for m in measurements:
        if m["name"] == "time" or (m["name"] in (objectives or ()) and _is_unit(m.get("unit"))):
            scale = _factor(m["unit"], where) if m.get("unit") else factor
            time_ms = _finite_number(m["value"], m["name"], where, scale)
            if by_kernel_tuner and time_ms >= _NEVER_RAN:
                return RecordedResult(None, Status.REJECTED, compile_s)
            return RecordedResult(time_ms, status, compile_s, samples)
    if not samples:
        raise SpaceError(f"{where} is correct but has neither a measurement named time nor runtimes; add one")
    return RecordedResult(median(samples), status, compile_s, samples)


def _measurements(entry: Json) -> Iterator[Json]:
    measurements = entry.get("measurements")
    for measurement in measurements if isinstance(measurements, list) else []:
        if isinstance(measurement, dict) and {"name", "value"} <= set(measurement):
            yield measurement


def _is_unit(unit: object) -> TypeGuard[str]:
    return isinstance(unit, str) and unit.lower() in _MILLISECONDS


def _factor(unit: object, where: str) -> float:
    """Return the milliseconds in a unit of time."""
    if not _is_unit(unit):
        raise SpaceError(
            f"{where}: time unit {reprlib.repr(unit)} is unknown; use seconds, milliseconds, microseconds, nanoseconds"
        )
    return _MILLISECONDS[unit.lower()]


def _config(entry: Mapping[str, Any], names: Sequence[str], where: str) -> Config:
    for name in names:
        value = entry.get(name)
        if not isinstance(value, int | float | str) or not finite(value):
            problem = f"is {reprlib.repr(value)}" if name in entry else "is missing"
            raise SpaceError(f"{where}: parameter {name} {problem}; give a finite number, a truth value or a text")
    return Config((name, entry[name]) for name in names)


def _metrics(values: object, what: str, where: str, factor: float = 1.0) -> tuple[float, ...]:
    return tuple(_finite_number(value, what, where, factor) for value in values) if isinstance(values, list) else ()


def _finite_number(value: object, what: str, where: str, factor: float = 1.0, least: float | None = None) -> float:
    """Return a number times a factor; the product must be finite and above 0, or at least `least`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and finite(value):
        number = float(value) * factor
        if finite(number) and (number > 0 if least is None else number >= least):
            return number
    raise SpaceError(
        f"{where}: {what} is {reprlib.repr(value)}, which is not a finite number "
        f"{'above 0' if least is None else 'of at least 0'}; fix or remove it"
    )


def write_t4(path: Path, source: Recording | Iterable[Evaluation], names: Sequence[str] = ()) -> None:
    """Write a recording, or the evaluations of a live search, as T4 results, schema 1.0.0, times in milliseconds.

    T4 has fewer kinds of failure than `core.Status`; the exact one is stored among the measurements. Raises
    `SpaceError` where `collect` does, and `ResultsError` for a file that cannot be written.
    """
    # One result a line, so that one can look at a few of thousands.
    results = ",\n".join(json.dumps(_entry(*pair), allow_nan=False) for pair in collect(source, names).items())
    head = '{"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": ['
    write_text(path, f"{head}\n{results}\n]}}\n")


def _entry(config: Config, result: RecordedResult) -> Json:
    times: Json = {} if result.compile_s is None else {"compilation_time": result.compile_s * 1e3}
    failed = {"name": "status", "value": str(result.status), "unit": ""}
    return {
        "configuration": dict(config),
        "times": times | {"runtimes": list(result.samples_ms)},
        "invalidity": _INVALIDITY[result.status],
        "correctness": float(result.time_ms is not None),
        "measurements": [
            failed if result.time_ms is None else {"name": "time", "value": result.time_ms, "unit": "milliseconds"}
        ],
        "objectives": ["time"],
    }
