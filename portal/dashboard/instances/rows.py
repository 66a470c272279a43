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


LOCK, UNLOCK = "lock", "unlock"
"""Verbs that are no moves: they are there or not by the lock alone."""

VERBS = (
    Verb(
        "start", "Start", "play-fill", "power_on", "os_compute_api:servers:start",
        "Start {name}?", "The guest boots from the disk it was stopped with.",
    ),
    Verb(
        "stop", "Stop", "stop-fill", "power_off", "os_compute_api:servers:stop",
        "Stop {name}?", "The guest is asked to shut down. Disk and addresses stay, and it still counts in the quota.",
    ),
    Verb(
        "reboot", "Reboot", "arrow-clockwise", "reboot", "os_compute_api:servers:reboot",
        "Reboot {name}?", "The guest is asked to restart.",
    ),
    Verb(
        "reset", "Reset", "lightning-charge", "reboot_hard", "os_compute_api:servers:reboot",
        "Reset {name}?", "The power is cut and switched on again. What the guest has not written is lost.",
    ),
    Verb(
        "pause", "Pause", "pause-fill", "pause", "os_compute_api:os-pause-server:pause",
        "Pause {name}?", "Its processors stop; it stays in the memory of its host.",
    ),
    Verb(
        "unpause", "Unpause", "play-fill", "unpause", "os_compute_api:os-pause-server:unpause",
        "Let {name} go on?", "It goes on where it was paused.",
    ),
    Verb(
        "suspend", "Suspend", "moon", "suspend", "os_compute_api:os-suspend-server:suspend",
        "Suspend {name}?", "Its memory is written to disk and its power is cut. It goes on there when resumed.",
    ),
    Verb(
        "resume", "Resume", "sun", "resume", "os_compute_api:os-suspend-server:resume",
        "Resume {name}?", "It goes on where it was suspended.",
    ),
    Verb(
        "confirm", "Confirm resize", "check-lg", "confirm_resize", "os_compute_api:servers:confirm_resize",
        "Keep the new size of {name}?", "What was kept to go back to the old size is removed.",
    ),
    Verb(
        "revert", "Revert resize", "arrow-counterclockwise", "revert_resize", "os_compute_api:servers:revert_resize",
        "Go back to the old size of {name}?", "It gets its old size and disk back. What was written since is lost.",
    ),
    Verb(
        "unrescue", "Leave rescue", "life-preserver", "unrescue", "os_compute_api:os-unrescue",
        "Start {name} from its own disk again?", "The rescue disk is removed.",
    ),
    Verb(
        "shelve", "Shelve", "archive", "shelve", "os_compute_api:os-shelve:shelve",
        "Shelve {name}?", "It is stopped and leaves its host; its disk is kept as an image. It still counts.",
    ),
    Verb(
        "unshelve", "Unshelve", "box-arrow-up", "unshelve", "os_compute_api:os-shelve:unshelve",
        "Bring {name} back?", "It is built again from the disk it had, with its addresses.",
    ),
    Verb(
        "restore", "Restore", "arrow-counterclockwise", "restore", "os_compute_api:os-deferred-delete:restore",
        "Restore {name}?", "It comes back as it was when it was deleted.",
    ),
    Verb(
        "lock", "Lock", "lock", LOCK, "os_compute_api:os-lock-server:lock",
        "Lock {name}?", "Nothing can be done to it until it is unlocked, not even deleting it.",
    ),
    Verb(
        "unlock", "Unlock", "unlock", UNLOCK, "os_compute_api:os-lock-server:unlock",
        "Unlock {name}?", "Everybody in the project can act on it again.",
    ),
    Verb(
        "delete", "Delete", "trash", "delete", "os_compute_api:servers:delete",
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
    masters = policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override")
    allowed = {verb.rule: policy.allows(context, verb.rule) for verb in VERBS}
    return [
        InstanceRow(
            instance=item,
            status=wording.instance_status(api_status(item.vm_state, item.task_state), item.task_state),
            task=wording.TASKS.get(item.task_state or "", ""),
            addresses=addresses.get(item.id, []),
            steps=progress.get(item.id, []),
            fault=faults.get(item.id),
            verbs=tuple(verb for verb in VERBS if allowed[verb.rule] and can(item, verb, masters=masters)),
        )
        for item in instances
    ]


def can(instance: Instance, verb: Verb, *, masters: bool = False) -> bool:
    """Whether the instance's state has this move; a locked one has none but for who ``masters`` locks."""
    if verb.move == UNLOCK:
        return instance.locked
    if instance.locked and not masters:
        return False
    if verb.move == LOCK:
        return not instance.locked and instance.vm_state not in {VmState.BUILDING, VmState.SOFT_DELETED}
    if instance.vm_state == VmState.ERROR and instance.host_id is None and not verb.danger:
        return False  # nothing of it was built: there is nothing to start or stop
    task = TaskState(instance.task_state) if instance.task_state else None
    return (verb.move, (VmState(instance.vm_state), task)) in LEGAL
