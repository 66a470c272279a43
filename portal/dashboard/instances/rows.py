"""What a page shows of an instance, gathered in a fixed number of queries however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from portal.dashboard import wording
from portal.dashboard.wording import Status
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.selectors.progress import progress_of
from provisioning.compute.states import LEGAL, PowerState, TaskState, VmState, api_status
from provisioning.identity import policy
from provisioning.network import selectors as network
from provisioning.network.selectors.instances import PortAddress


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be done to an instance: ``move`` is the legal move it begins with."""

    name: str
    label: str
    icon: str
    move: str
    rule: str
    question: str
    """Asked before it is done."""
    consequence: str
    danger: bool = False


VERBS = (
    Verb(
        "start", "Start", "play-fill", "power_on", "compute:servers:start",
        "Start {name}?", "The guest boots from the disk it was stopped with.",
    ),
    Verb(
        "stop", "Stop", "stop-fill", "power_off", "compute:servers:stop",
        "Stop {name}?", "The guest is asked to shut down. Disk and addresses stay, and it still counts in the quota.",
    ),
    Verb(
        "reboot", "Reboot", "arrow-clockwise", "reboot", "compute:servers:reboot",
        "Reboot {name}?", "The guest is asked to restart.",
    ),
    Verb(
        "reset", "Reset", "lightning-charge", "reboot_hard", "compute:servers:reboot",
        "Reset {name}?", "The power is cut and switched on again. What the guest has not written is lost.",
    ),
    Verb(
        "delete", "Delete", "trash", "delete", "compute:servers:delete",
        "Delete {name}?", "The guest is stopped and its disk is removed. This cannot be undone.", danger=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One instance, ready to be shown."""

    instance: Instance
    status: Status
    task: str
    addresses: list[PortAddress] = field(default_factory=list)
    steps: list[compute.Step] = field(default_factory=list)
    fault: InstanceFault | None = None
    verbs: tuple[Verb, ...] = ()

    @property
    def step(self) -> compute.Step | None:
        """The step that runs, else the first that waits."""
        running = (step for step in self.steps if step.state == "running")
        return next(running, None) or next((step for step in self.steps if step.state == "waiting"), None)

    @property
    def api_status(self) -> str:
        """The Compute API's word."""
        return api_status(self.instance.vm_state, self.instance.task_state)

    @property
    def said(self) -> str:
        """What a screen reader is told when the row changes."""
        return f"{self.instance.name}: {self.task or self.status.word}"

    @property
    def power(self) -> str:
        """What the hypervisor says."""
        return wording.POWER[PowerState(self.instance.power_state)]


def rows_for(context: RequestContext, instances: Sequence[Instance]) -> list[InstanceRow]:
    """Return the rows of these instances: three queries."""
    addresses = network.addresses_of([item.id for item in instances])
    faults, progress = compute.fault_of(instances), progress_of(instances)
    allowed = {verb.rule: policy.allows(context, verb.rule) for verb in VERBS}
    return [
        InstanceRow(
            instance=item,
            status=wording.instance_status(api_status(item.vm_state, item.task_state), item.task_state),
            task=wording.TASKS.get(item.task_state or "", ""),
            addresses=addresses.get(item.id, []),
            steps=progress.get(item.id, []),
            fault=faults.get(item.id),
            verbs=tuple(verb for verb in VERBS if allowed[verb.rule] and can(item, verb)),
        )
        for item in instances
    ]


def can(instance: Instance, verb: Verb) -> bool:
    """Whether the instance's state has this move."""
    task = TaskState(instance.task_state) if instance.task_state else None
    return (verb.move, (VmState(instance.vm_state), task)) in LEGAL
