"""A tuner of another package."""

from itertools import islice

from kernelwright import Config, Evaluation, TunerArguments, TunerEntry


class LastFirst:
    """Every config of a space by sixteens, the last one of them first, but those that are told before."""

    def __init__(self, arguments: TunerArguments) -> None:
        self._members = iter(arguments.space)
        self._next: list[Config] = []
        self._known: set[Config] = set()

    def ask(self, n: int = 1) -> list[Config]:
        found: list[Config] = []
        while len(found) < n:
            if not self._next:
                self._next = list(islice(self._members, 16))
            if not self._next:
                break
            config = self._next.pop()
            if config not in self._known:
                self._known.add(config)
                found.append(config)
        return found

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        self._known.add(config)


last_first = TunerEntry(LastFirst, adaptive=False, exhaustive=True)
