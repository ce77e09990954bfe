"""Records a run of `optimize` as a terminal shows it: the picture in README.

    python benchmarks/record_session.py --kernel 1_94 --target-speedup 1.3 --svg docs/images/optimize.svg

The run is a real one, by the built-in rules, in an empty folder and with an empty archive.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import tempfile
from pathlib import Path

import kernelwright
from command import run_benchmark
from kernelwright.cli.screens import Display
from kernelwright.cli.terminal import RunTable
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI

FONT_FACES = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""Rules that ask another server for a font; the system's monospaced one serves."""


class Recorded(RunTable):
    """A live display on what is not a terminal: each table is kept as it is at its end, without the frames before."""

    def close(self) -> None:
        """End a table with a line's end, which a terminal does not need."""
        shown = self._live is not None
        super().close()
        if shown:
            self.console.line()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--target-speedup", type=float, required=True)
    parser.add_argument("--width", type=int, default=112, help="columns of the terminal")
    parser.add_argument("--svg", type=Path, required=True)
    given = parser.parse_args()
    svg = given.svg.resolve()
    screen = Console(file=io.StringIO(), record=True, width=given.width, highlight=False)
    display = Recorded(Display())
    display.console = screen
    screen.print(f"[bold green]$[/] optimize {given.kernel} --target-speedup {given.target_speedup:g}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KERNELWRIGHT_CACHE"] = str(Path(folder, "cache"))
        os.chdir(folder)
        result = kernelwright.optimize(
            given.kernel, target_speedup=given.target_speedup, model="rules", on_event=display.emit
        )
    screen.line()  # the picture cuts its last line
    print(screen.export_text(clear=False))
    if not result.reached:
        raise SystemExit("the target was not reached, so the picture stays as it is")
    drawing = screen.export_svg(
        title="optimize", theme=MONOKAI, code_format=FONT_FACES.sub("", CONSOLE_SVG_FORMAT), unique_id="optimize"
    )
    svg.parent.mkdir(parents=True, exist_ok=True)
    unfinished = svg.with_suffix(".tmp")
    unfinished.write_text(drawing)
    unfinished.replace(svg)


if __name__ == "__main__":
    run_benchmark(main)
