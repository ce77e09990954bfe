"""A session of a coding agent, replayed through the MCP server: what it calls, what it is answered, what it edits.

    python benchmarks/mcp_session.py [--trials 8] [--markdown FILE]

The calls and the edits are the script's, the answers are the server's: a real process over stdio, real measurements on
the CPU. The agent is given a row softmax. It measures, reads the bottleneck, changes one thing at a time (once
with a slip), and tunes what it arrived at. In the output fields that are empty are left out, and long texts
are cut.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from command import run_benchmark
from kernelwright.corpus import find_kernel
from mcp import Client
from mcp.client.stdio import StdioServerParameters

KERNEL = "kernels/softmax.py"
SUBJECT = {"kernel": KERNEL, "problem": "level1/1_23"}
LONGEST = 160
"""Characters of a text in the output."""
LINES = 12
"""Of an excerpt."""

FLAGS = 'COMPILE_FLAGS = ["-O3", "-march=native"]'
MATH_FLAGS = """MATH_FLAGS = "-fno-math-errno -fno-trapping-math -fno-signed-zeros -fassociative-math -freciprocal-math"
COMPILE_FLAGS = ["-O3", "-march=native", *MATH_FLAGS.split(), "-D__FAST_MATH__"]"""

REDUCTIONS = """            row_max[0] = X[row, 0]
            for j in T.serial(N):
                row_max[0] = T.max(row_max[0], X[row, j])

            for j in T.serial(N):
                Y[row, j] = T.exp(X[row, j] - row_max[0])

            row_sum[0] = 0.0
            for j in T.serial(N):
                row_sum[0] += Y[row, j]
"""
LANES = """            lanes = T.alloc_local((LANES,), "float32")
            sums = T.alloc_local((LANES,), "float32")
            row_max[0] = X[row, 0]
            T.fill(lanes, X[row, 0])
            for j in T.serial(N // LANES):
                for lane in T.serial(LANES):
                    lanes[lane] = T.max(lanes[lane], X[row, j * LANES + lane])
            for lane in T.serial(LANES):
                row_max[0] = T.max(row_max[0], lanes[lane])
            for j in T.serial(N % LANES):
                row_max[0] = T.max(row_max[0], X[row, N // LANES * LANES + j])

            T.clear(sums)
            for j in T.serial(N // LANES):
                for lane in T.serial(LANES):
                    Y[row, j * LANES + lane] = T.exp(X[row, j * LANES + lane] - row_max[0])
                for lane in T.serial(LANES):
                    sums[lane] += Y[row, j * LANES + lane]
            row_sum[0] = 0.0
            for lane in T.serial(LANES):
                row_sum[0] += sums[lane]
            for j in T.serial(N % LANES):
                Y[row, N // LANES * LANES + j] = T.exp(X[row, N // LANES * LANES + j] - row_max[0])
                row_sum[0] += Y[row, N // LANES * LANES + j]
"""
SLIP = LANES.replace("row_sum[0] += sums[lane]", "row_sum[0] += sum[lane]")
CONSTANT = f"{MATH_FLAGS}\n\nLANES = 16\n\nSEARCH_SPACE = {{'LANES': [8, 16, 32, 64, 128, 256]}}"


class Session:
    """The agent's side."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self._tell(["", text, ""])

    def edit(self, what: str, old: str, new: str) -> None:
        path = self._folder / KERNEL
        text = path.read_text()
        assert old in text, what
        path.write_text(text.replace(old, new))
        self.say(f"The agent edits `{KERNEL}`: {what}.")

    async def call(self, tool: str, shown: tuple[str, ...] = (), **arguments: Any) -> dict[str, Any]:
        """Call a tool; print only the fields in `shown`, where there are any."""
        steps: list[str] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            steps.append(f"{progress:.4g}{f'/{total:g}' if total else ''} {message}")

        answer = await self._client.call_tool(tool, arguments, progress_callback=note)
        given = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items())
        lines = [f"    > {tool}({given})", *(f"    ~ {step}" for step in _few(steps))]
        if answer.is_error:
            self._tell([*lines, f"    < {answer.content[0].text}"])
            return {}
        found = answer.structured_content
        kept = {name: value for name, value in found.items() if value not in (None, "", [], {})}
        for name in shown or kept:
            lines += _field(name, kept[name]) if name in kept else []
        self._tell(lines)
        return found

    def _tell(self, lines: list[str]) -> None:
        self.lines += lines
        print("\n".join(lines), flush=True)


def _few(steps: list[str]) -> list[str]:
    return steps if len(steps) <= 3 else [steps[0], f"... {len(steps) - 2} more", steps[-1]]


def _field(name: str, value: Any) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        lines = [line[:LONGEST] for line in value.splitlines()]
        cut = [*lines[:LINES], "..."] if len(lines) > LINES else lines
        return [f"    < {name}:", *(f"    <   {line}".rstrip() for line in cut)]
    text = json.dumps(value)
    return [f"    < {name}: {text if len(text) <= 2 * LONGEST else text[: 2 * LONGEST] + '...'}"]


VERDICT = ("status", "message", "latency_ms", "reference_ms", "speedup", "interval", "warnings", "next")
TUNED = ("run", "trials", "start", "best", "times_as_fast", "warnings", "next")
PROFILE = ("status", "message", "latency_ms", "floor_ms", "times_floor", "bottleneck", "warnings", "next")


async def play(session: Session, trials: int) -> None:
    """The session."""
    session.say("Measure first.")
    await session.call("evaluate", VERDICT, **SUBJECT)
    await session.call("profile", PROFILE, **SUBJECT)
    session.say("It waits for instructions, not for memory: what does the compiler need to vectorize the exponentials?")
    await session.call("read_guide", ("section", "text"), backend="tilelang_cpu", section="Math flags")
    session.edit("one thing, the compiler's flags", FLAGS, MATH_FLAGS)
    await session.call("evaluate", VERDICT, **SUBJECT)
    await session.call("profile", PROFILE, **SUBJECT)
    query = "row softmax on a CPU: maximum and sum are chains through one scalar"
    await session.call("search_examples", ("examples",), query=query, backend="tilelang_cpu", k=1)
    session.edit("their number is a constant to tune", MATH_FLAGS, CONSTANT)
    session.edit("the idea of the example, maximum and sum in independent lanes, with a slip", REDUCTIONS, SLIP)
    await session.call("evaluate", VERDICT, **SUBJECT)
    await session.call("explain_error", ("status", "text", "next"))
    session.edit("the buffer is called `sums`", SLIP, LANES)
    await session.call("evaluate", VERDICT, **SUBJECT)
    session.say("The structure is settled. Now its constant.")
    tuned = await session.call("tune", TUNED, **SUBJECT, trials=trials)
    if tuned["kernel"] is not None:
        best = tuned["best"]["config"]["LANES"]
        session.edit(f"the fastest value, {best}", "LANES = 16", f"LANES = {best}")
    await session.call("profile", PROFILE, **SUBJECT)
    session.say("What is left is the second core: read_guide has a section on threads.")


async def run(trials: int, markdown: Path | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / KERNEL).parent.mkdir()
        shutil.copy(find_kernel("level1/1_23", "tilelang_cpu").path, folder / KERNEL)
        command = ["-P", "-m", "kernelwright", "mcp", "--root", name, "--device", "cpu"]
        server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        async with Client(server) as client:
            session = Session(client, folder)
            await play(session, trials)
        if markdown is not None:
            markdown.write_text("\n".join(session.lines).strip() + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=8, help="configs of the search")
    parser.add_argument("--markdown", type=Path, help="write the session to this file")
    arguments = parser.parse_args()
    anyio.run(run, arguments.trials, arguments.markdown)


if __name__ == "__main__":
    run_benchmark(main)
