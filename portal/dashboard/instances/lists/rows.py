"""Rows of instances for pages, built with a fixed number of queries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from django.utils.safestring import SafeString

from portal.common import statuses
from portal.common.statuses import Status
from portal.dashboard.frame.addresses import address
from portal.dashboard.instances.actions.begin import refusal
from portal.dashboard.instances.lists.state import state
from portal.dashboard.lists.users import Users
from portal.dashboard.words import wording
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.selectors.progress import progress_of
from provisioning.compute.states import PowerState, api_status
from provisioning.network import selectors as network
from provisioning.network.selectors.instances import PortAddress


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One instance, prepared for templates."""

    instance: Instance
    status: Status
    task: str
    silent: bool = False
    """Whether the instance's host is down."""
    addresses: list[PortAddress] = field(default_factory=list)
    steps: list[compute.Step] = field(default_factory=list)
    fault: InstanceFault | None = None
    users: Users = field(default_factory=lambda: Users(()))
    line: SafeString = field(default_factory=SafeString)
    """The graph of its processor usage in the last hour."""

    @property
    def step(self) -> compute.Step | None:
        """The running step, or the first waiting step if no step is running."""
        running = (step for step in self.steps if step.state == "running")
        return next(running, None) or next((step for step in self.steps if step.state == "waiting"), None)

    @property
    def api_status(self) -> str:
        """The status in the Compute API."""
        return api_status(self.instance.vm_state, self.instance.task_state)

    @property
    def ident(self) -> str:
        return str(self.instance.id)

    @property
    def address_to_use(self) -> str:
        """The first floating IP, otherwise the first address; empty without an address."""
        outside = (address for entry in self.addresses for address in entry.floating)
        return next(outside, self.addresses[0].address if self.addresses else "")

    @property
    def address(self) -> str:
        """The address of its page."""
        return address("dashboard:instance", self.instance.id)

    @property
    def user(self) -> str:
        """The name of the user who launched it."""
        return self.users.name(self.instance.user_id)

    @property
    def size(self) -> str:
        flavor = self.instance.flavor
        return f"{flavor['vcpus']} vCPU · {wording.mebibytes(flavor['memory_mb'])}"

    @property
    def announcement(self) -> str:
        """The announcement for screen readers when the row changes."""
        return f"{bdi(self.instance.name)}: {self.task or self.status.word}"

    @property
    def state(self) -> SafeString:
        """The status as HTML, with the task and the progress of an action."""
        return state(self)

    @property
    def power(self) -> str:
        return wording.POWER[PowerState(self.instance.power_state)]


def rows_for(context: RequestContext, instances: Sequence[Instance]) -> list[InstanceRow]:
    """Return the rows of these instances, with three queries, and one more when the first user is shown."""
    users = Users(item.user_id for item in instances)
    addresses = network.addresses_of([item.id for item in instances])
    now = timezone.now()
    faults, progress = compute.fault_of(instances), progress_of(instances)
    return [
        InstanceRow(
            instance=item,
            status=statuses.server_status(item, now),
            silent=statuses.is_silent(item, now),
            task=statuses.task_word(item.task_state),
            addresses=addresses.get(item.id, []),
            steps=progress.get(item.id, []),
            fault=faults.get(item.id),
            users=users,
        )
        for item in instances
    ]


def can(instance: Instance, action: ServerAction[Any], *, masters: bool = False) -> bool:
    """Whether the action can start now; ``masters``: the caller may override locks."""
    return not refusal(instance, action, masters=masters)
