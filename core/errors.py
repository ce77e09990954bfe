"""The mistakes a user can make, each with a message that says what to do.

    KernelwrightError
    ├── ProblemError    a problem that is missing, unreadable or incomplete
    ├── KernelError     a kernel that is missing, unreadable or incomplete
    ├── ExampleError    a worked example that is missing, unreadable or incomplete
    ├── SpaceError      parameters or constraints that make no search space
    ├── ScheduleError   a schedule, its graph or its file that cannot be
    ├── JournalError    a journal that cannot be read, or belongs to another run
    ├── ResultsError    a results folder that cannot be written
    ├── DeviceError     a device or an evaluator that is not there
    ├── OptionError     an option whose value or combination is impossible
    ├── ModelError      a language model that cannot be used: its name, its key, its server, its recorded replies
    └── Waiting         a reply that a person has not written yet; exit code 75, EX_TEMPFAIL of sysexits.h

Expected failures of a kernel (it does not compile, it is wrong, it hangs) are not exceptions: they are an `Evaluation`.
Any other exception is a bug in kernelwright.
"""


class KernelwrightError(Exception):
    """A mistake that the user can fix: what is wrong, and a hint what to do, on one line.

    Options are named as Python names them, in backticks: `max_cost`. A command line shows its flags instead.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ProblemError(KernelwrightError):
    """A problem is missing, unreadable or incomplete."""


class KernelError(KernelwrightError):
    """A kernel is missing, unreadable or incomplete."""


class ExampleError(KernelwrightError):
    """A worked example is missing, unreadable or incomplete."""


class SpaceError(KernelwrightError):
    """Parameters or constraints make no search space."""


class ScheduleError(KernelwrightError):
    """A schedule, its dependence graph or its file is impossible, unreadable or of another kernel."""


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


class Waiting(KernelwrightError):
    """A person has not written a reply yet; exit code 75, EX_TEMPFAIL of sysexits.h."""

    exit_code = 75
