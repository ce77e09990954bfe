"""The words that every part speaks: typed, frozen, without torch."""

from .budget import Budget
from .errors import (
    DeviceError,
    JournalError,
    KernelError,
    KernelwrightError,
    OptionError,
    ProblemError,
    ResultsError,
    SpaceError,
)
from .evaluation import CHECKED_NOT_TIMED, Correctness, Evaluation, Status
from .journal import Journal, read_journal, set_aside
from .kernel import Kernel, Language, Target
from .measurement import Measurement, Speedup
from .problem import DEFAULT_WORKLOAD, Problem
from .profile import Ceilings, DeviceLimits, MatrixProduct, Profile
from .proposal import Proposal
from .protocols import Evaluator, Tuner
from .space import Config, Parameter, SearchSpace, Value
from .trial import Trial

__all__ = [
    "CHECKED_NOT_TIMED",
    "DEFAULT_WORKLOAD",
    "Budget",
    "Ceilings",
    "Config",
    "Correctness",
    "DeviceError",
    "DeviceLimits",
    "Evaluation",
    "Evaluator",
    "Journal",
    "JournalError",
    "Kernel",
    "KernelError",
    "KernelwrightError",
    "Language",
    "MatrixProduct",
    "Measurement",
    "OptionError",
    "Parameter",
    "Problem",
    "ProblemError",
    "Profile",
    "Proposal",
    "ResultsError",
    "SearchSpace",
    "SpaceError",
    "Speedup",
    "Status",
    "Target",
    "Trial",
    "Tuner",
    "Value",
    "read_journal",
    "set_aside",
]
