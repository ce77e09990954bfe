"""Becomes a Python program that others wrote: with its standard input and output, in the first sandbox that works here.

    python -P -c "... import main; main()" FOLDER ARGUMENT...

continues as `python ARGUMENT...`, with FOLDER as its home and the only place to write. It may read what the variable
KERNELWRIGHT_SHOWN names, too. The caller limits its time and removes the folder.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from ..devices import device_files
from ..sandbox.containment import contain, home_in
from ..settings import Limits, Sandbox
from .confinement import confine
from .shortages import within

SHOWN = "KERNELWRIGHT_SHOWN"


def main() -> None:
    """Confine this process, and replace it."""
    folder, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    # A list of configs may ask which GPU it is.
    containment = contain(Sandbox.AUTO, "cuda" if device_files() else "cpu")
    # Under bubblewrap it is alone in its namespaces.
    shown = [Path(path) for path in os.environ.pop(SHOWN, "").split(os.pathsep) if path]
    inside = containment.command(shown, [folder], folder)
    rules = None if inside else containment.rules(shown, [folder])
    os.environ.update(home_in(folder))
    os.chdir(folder)
    limits = Limits()
    for kind, gib in ((resource.RLIMIT_DATA, limits.memory_gib), (resource.RLIMIT_FSIZE, limits.file_gib)):
        limit = within(kind, int(gib * 2**30))
        resource.setrlimit(kind, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if rules is not None:
        confine(rules)
    command = [*inside, sys.executable, *arguments]
    os.execvp(command[0], command)
