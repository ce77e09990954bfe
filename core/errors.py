"""Errors that the user can fix. Each message says what to do.

    KernelwrightError
    ├── ProblemError        a problem that is missing, unreadable or incomplete
    ├── KernelError         a kernel that is missing, unreadable or incomplete
    ├── ExampleError        a worked example that is missing, unreadable or incomplete
    ├── SpaceError          parameters or constraints that form no search space
    ├── ScheduleError       an impossible schedule, or an invalid graph or file of one
    ├── JournalError        a journal that cannot be read, or belongs to another run
    ├── ResultsError        a results folder that cannot be written
    ├── DeviceError         a device or an evaluator that is not available
    ├── OptionError         an invalid option, or options that contradict each other
    ├── ModelError          a language model that cannot be used: its name, its key, its server, its recorded replies
    └── ReplyPendingError   a reply that a person has not written yet; exit code 75, EX_TEMPFAIL of sysexits.h

Expected failures of a kernel (it does not compile, it is wrong, it hangs) are not exceptions: they are an `Evaluation`.
Any other exception is a bug in kernelwright.
"""

from .quotation import printable

LONGEST = 1000
"""Characters of a line of a message."""


class KernelwrightError(Exception):
    """An error that the user can fix: what is wrong and what to do, on one line.

    Options stand in backticks with their Python names, as in `max_cost`. The command line shows its flags instead.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = printable(message, LONGEST)  # it may quote files, programs and models
        self.hint = hint
        super().__init__(self.message, hint)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ProblemError(KernelwrightError):
    """A problem is missing, unreadable or incomplete."""


class KernelError(KernelwrightError):
    """A kernel is missing, unreadable or incomplete."""


class ExampleError(KernelwrightError):
    """A worked example is missing, unreadable or incomplete."""


class SpaceError(KernelwrightError):
    """Parameters or constraints form no search space."""


class ScheduleError(KernelwrightError):
    """A schedule is impossible, or its dependence graph or file is invalid or belongs to another kernel."""


class JournalError(KernelwrightError):
    """A journal cannot be read, or belongs to another run."""


class ResultsError(KernelwrightError):
    """A results folder cannot be written."""


class DeviceError(KernelwrightError):
    """A device or an evaluator is not available."""


class OptionError(KernelwrightError):
    """An option has an invalid value, or options contradict each other."""


class ModelError(KernelwrightError):
    """A language model cannot be used: its name, its key, its server, its recorded replies."""


class ReplyPendingError(KernelwrightError):
    """A person has not written a reply yet; exit code 75, EX_TEMPFAIL of sysexits.h."""

    exit_code = 75
