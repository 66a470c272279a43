"""Faults of a simulated host: a chosen step of every build, or of every change of a volume, fails."""

import threading

from compute_agent.contract.steps import BUILD_STEPS, VOLUME_STEPS
from compute_agent.virt.errors import FatalBuildError, RetryableHostError

FAULT_STEPS = (*BUILD_STEPS, *VOLUME_STEPS)
FAULT_KINDS = ("retryable", "fatal", "hang")


class FaultPoint:
    """Lets a step of every command fail: ``retryable``, ``fatal``, or ``hang`` until the command is cancelled."""

    def __init__(self, step: str, kind: str = "retryable") -> None:
        """Raise ValueError for an unknown step or kind."""
        if step not in FAULT_STEPS:
            raise ValueError(f"there is no step {step!r}; the steps are {', '.join(FAULT_STEPS)}")
        if kind not in FAULT_KINDS:
            raise ValueError(f"a step fails {', '.join(FAULT_KINDS)}, not {kind!r}")
        self.step = step
        self.kind = kind

    def strike(self, step: str, cancelled: threading.Event) -> None:
        """Fail if ``step`` is the chosen one; called after the step's work, so that there is something to undo."""
        if step != self.step:
            return
        if self.kind == "fatal":
            raise FatalBuildError(f"Simulated fault: no host can do the step {step}.")
        if self.kind == "hang":
            cancelled.wait()
        raise RetryableHostError(f"Simulated fault: this host failed at the step {step}.")
