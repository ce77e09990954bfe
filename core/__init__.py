"""The types that all parts share: typed, frozen, without torch."""

from .archive import Archive, ArchivedRun, Experience, Improvement, Provenance
from .budget import Budget
from .causes.bottleneck import find_bottleneck
from .errors import (
    DeviceError,
    ExampleError,
    JournalError,
    KernelError,
    KernelwrightError,
    ModelError,
    OptionError,
    ProblemError,
    ReplyPendingError,
    ResultsError,
    ScheduleError,
    SpaceError,
)
from .evaluation import CHECKED_NOT_TIMED, Evaluation
from .joint_problem import JointProblem
from .journal import Journal, is_own, read_journal, set_aside
from .kernel import Kernel, PythonKernel
from .kernel_profile import DeviceKernel, KernelProfile
from .language import Language, Target, backends, default_backend, find_language, known_languages, of_backend
from .measurement import Measurement, Speedup
from .metrics import EvaluationSummary, Metrics
from .mlir_kernel import MlirKernel, Slot
from .mlir_problem import MlirProblem
from .problem import DEFAULT_WORKLOAD, Problem, Tolerance
from .profile import Ceilings, DeviceLimits, MatrixProduct, Profile
from .proposal import Proposal
from .protocols import Evaluator, Judge, Retriever, Screener, Tuner
from .records import (
    ExchangeRecord,
    FinishedRecord,
    KernelRecord,
    PriorRecord,
    ProfileRecord,
    Record,
    RunRecord,
    Trial,
)
from .retrieval import BOTTLENECKS, TECHNIQUES, Gain, Hit, Query, WorkedExample, check_count
from .source_text import source_lines
from .space import Config, Parameter, SearchSpace, Value
from .torch_problem import TorchProblem
from .turn_record import ToolCall, TurnRecord
from .verdict import Correctness, Origin, Rejection, Replay, SecondWorkload, Status

__all__ = [
    "BOTTLENECKS",
    "CHECKED_NOT_TIMED",
    "DEFAULT_WORKLOAD",
    "TECHNIQUES",
    "Archive",
    "ArchivedRun",
    "Budget",
    "Ceilings",
    "Config",
    "Correctness",
    "DeviceError",
    "DeviceKernel",
    "DeviceLimits",
    "Evaluation",
    "EvaluationSummary",
    "Evaluator",
    "ExampleError",
    "ExchangeRecord",
    "Experience",
    "FinishedRecord",
    "Gain",
    "Hit",
    "Improvement",
    "JointProblem",
    "Journal",
    "JournalError",
    "Judge",
    "Kernel",
    "KernelError",
    "KernelProfile",
    "KernelRecord",
    "KernelwrightError",
    "Language",
    "MatrixProduct",
    "Measurement",
    "Metrics",
    "MlirKernel",
    "MlirProblem",
    "ModelError",
    "OptionError",
    "Origin",
    "Parameter",
    "PriorRecord",
    "Problem",
    "ProblemError",
    "Profile",
    "ProfileRecord",
    "Proposal",
    "Provenance",
    "PythonKernel",
    "Query",
    "Record",
    "Rejection",
    "Replay",
    "ReplyPendingError",
    "ResultsError",
    "Retriever",
    "RunRecord",
    "ScheduleError",
    "Screener",
    "SearchSpace",
    "SecondWorkload",
    "Slot",
    "SpaceError",
    "Speedup",
    "Status",
    "Target",
    "Tolerance",
    "ToolCall",
    "TorchProblem",
    "Trial",
    "Tuner",
    "TurnRecord",
    "Value",
    "WorkedExample",
    "backends",
    "check_count",
    "default_backend",
    "find_bottleneck",
    "find_language",
    "is_own",
    "known_languages",
    "of_backend",
    "read_journal",
    "set_aside",
    "source_lines",
]
