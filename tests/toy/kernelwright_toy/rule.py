"""A rule of another package, as docs/rules.md describes it: one file, and its entry point."""

from kernelwright.agent.analysis.triton import Launch, TritonKernel, argument
from kernelwright.agent.rules.rule import Change, Rewritten, require, rule


@rule("memory", "streams", TritonKernel.read).because("data that is read once does not evict what is read again")
def bypass_l1(kernel: TritonKernel, change: Change) -> Rewritten:
    """Loads of functions without products leave the L1 cache alone. Needs a load without a cache modifier."""
    change.each(kernel.launched_once(), _bypass)
    return change.rewritten("let loads bypass the L1 cache")


def _bypass(launch: Launch, change: Change) -> None:
    require(not launch.function.has_products, "the function has products")
    loads = [call for call in launch.function.loads if argument(call, "cache_modifier") is None]
    require(loads, "every load has a cache modifier")
    for call in loads:
        change.add_arguments(call, {"cache_modifier": '".cg"'})
