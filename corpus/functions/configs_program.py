"""Prints the configs of autotuners as JSON: a separate program, which imports the user's package for them.

Standard input has {"tops": top-level modules by name, "kernels": [[module, name], ...]}. For each kernel it prints
[configs, key], or null where it is not an autotuner. It needs nothing of this package, which a sandbox may hide.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

NAMES = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class Finder:
    """Finds top-level modules by their paths; without any, in folders of Python's path, which may not be listed."""

    def __init__(self, tops: dict[str, str]) -> None:
        self._tops = {name: Path(path) for name, path in tops.items()}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return where such a module is."""
        places = [Path(entry, f"{name}{end}") for entry in sys.path for end in ("", ".py")]
        near = [self._tops[name]] if name in self._tops else []
        near += [place for place in places if not self._tops and _is_module(place)]
        found = near[0] if path is None and near else None
        if found is None or not found.is_dir():
            return found and importlib.util.spec_from_file_location(name, found)
        init = found / "__init__.py"
        return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(found)])


def import_on_use(name: str) -> None:
    """Import a module when it is first used: lists of configs seldom need all imports of their file.

    `importlib.util.LazyLoader` would import it with the second `import`, which asks for the module's `__spec__`.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    path = module.__dict__.pop("__path__", None)

    def load(attribute: str) -> Any:
        if attribute.startswith("__") and attribute != "__path__":
            raise AttributeError(attribute)
        del module.__dict__["__getattr__"]
        if path is not None:
            module.__dict__["__path__"] = path
        loader.exec_module(module)
        return getattr(module, attribute)

    module.__dict__["__getattr__"] = load
    sys.modules[name] = module


def _is_module(place: Path) -> bool:
    return place.is_file() if place.suffix == ".py" else (place / "__init__.py").is_file()


def configs_of(kernel: Any) -> Any:
    """Return the configs and the key of a kernel under an autotuner; None for any other."""
    while kernel is not None and not hasattr(kernel, "configs"):
        kernel = getattr(kernel, "fn", None)
    if kernel is None:
        return None
    found = kernel.configs() if callable(kernel.configs) else kernel.configs
    if all(isinstance(item, dict) for item in found):
        return [[{**item, "": True} for item in found], []]  # of tilelang.autotune
    hooks = list(dict.fromkeys(item.pre_hook for item in found if item.pre_hook))
    configs = [
        {**item.kwargs, **{name: getattr(item, name, None) for name in NAMES}}
        | {"pre_hook": 1 + hooks.index(item.pre_hook) if item.pre_hook else False}
        for item in found
    ]
    return [configs, list(getattr(kernel, "keys", ()))]


def main() -> None:
    """Answer one request."""
    task = json.load(sys.stdin)
    sys.meta_path.insert(0, Finder(task["tops"]))
    sys.meta_path.append(Finder({}))
    import_on_use("torch")  # seconds
    found = [configs_of(getattr(importlib.import_module(module), name, None)) for module, name in task["kernels"]]
    sys.stdout.write("\n" + json.dumps(found, default=lambda value: {"": repr(value)}) + "\n")


if __name__ == "__main__":
    main()
