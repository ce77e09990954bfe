"""The words that every part speaks: typed, frozen, without torch."""

from .budget import Budget
from .errors import (
    DeviceError,
    ExampleError,
    JournalError,
    KernelError,
    KernelwrightError,
    ModelError,
    OptionError,
    ProblemError,
    ResultsError,
    SpaceError,
    Waiting,
)
from .evaluation import CHECKED_NOT_TIMED, Correctness, Evaluation, Origin, Rejection, SecondWorkload, Status
from .journal import Journal, read_journal, set_aside
from .kernel import Kernel, Language, PythonKernel, Target
from .kernel_profile import DeviceKernel, KernelProfile
from .lines import source_lines
from .measurement import Measurement, Speedup
from .problem import DEFAULT_WORKLOAD, Problem, Tolerance
from .profile import Ceilings, DeviceLimits, MatrixProduct, Profile
from .proposal import Proposal
from .protocols import Evaluator, Retriever, Tuner
from .retrieval import BOTTLENECKS, TECHNIQUES, Gain, Hit, Query, WorkedExample, check_count
from .space import Config, Parameter, SearchSpace, Value
from .torch_problem import TorchProblem
from .trial import Trial

__all__ = [
    "BOTTLENECKS",
    "CHECKED_NOT_TIMED",
    "DEFAULT_WORKLOAD",
    "TECHNIQUES",
    "Budget",
    "Ceilings",
    "Config",
    "Correctness",
    "DeviceError",
    "DeviceKernel",
    "DeviceLimits",
    "Evaluation",
    "Evaluator",
    "ExampleError",
    "Gain",
    "Hit",
    "Journal",
    "JournalError",
    "Kernel",
    "KernelError",
    "KernelProfile",
    "KernelwrightError",
    "Language",
    "MatrixProduct",
    "Measurement",
    "ModelError",
    "OptionError",
    "Origin",
    "Parameter",
    "Problem",
    "ProblemError",
    "Profile",
    "Proposal",
    "PythonKernel",
    "Query",
    "Rejection",
    "ResultsError",
    "Retriever",
    "SearchSpace",
    "SecondWorkload",
    "SpaceError",
    "Speedup",
    "Status",
    "Target",
    "Tolerance",
    "TorchProblem",
    "Trial",
    "Tuner",
    "Value",
    "Waiting",
    "WorkedExample",
    "check_count",
    "read_journal",
    "set_aside",
    "source_lines",
]
