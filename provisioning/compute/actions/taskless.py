"""Server actions that change no state: their commands run beside the server's tasks."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.base import COULD_NOT, B, HostAction, Prepared, R
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host


class TasklessAction(HostAction[R, B], Generic[R, B]):
    """An action that runs alongside a server's tasks: it has an action record and a command, but no task state.

    The host carries out the commands of one server in order.
    """

    task = None
    one_at_a_time: ClassVar[bool] = False
    """Whether another action of this class is rejected until the host has ended the first one."""
    ends_by_report: ClassVar[bool] = False
    """Whether only the host's report ends the action; a timeout extends the deadline, because it does not show which
    state the guest has.
    """

    def start(self, context: RequestContext, instance: Instance, request: R, started: datetime) -> Instance:
        """Check and prepare the action, and carry it out, inside the caller's transaction."""
        if not self.offered(instance):
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        if self.one_at_a_time:
            self._check_alone(instance)
        self.host_of(instance, started)
        return self.carry_out(context, instance, self.prepare(context, instance, request), started)

    def carry_out(self, context: RequestContext, instance: Instance, prepared: Prepared, started: datetime) -> Instance:
        """Write the action record, notify, and send the command, inside the caller's transaction."""
        host = self.host_of(instance, started)
        self.write_begin(context, instance, started, prepared.detail)
        body = self.command(instance, prepared)
        if self.notification:
            notify(instance, f"{self.notification}.start", Note(context, more=self.notification_fields(body)))
        self.send(host, instance, body)
        state.announce_all(instance, [{}])
        return instance

    def notification_fields(self, body: B) -> Mapping[str, Any]:
        """Return the additional fields of the action's notifications."""
        return {}

    def _check_alone(self, instance: Instance) -> None:
        """Lock the server and raise ConflictError while another action of this kind is in progress."""
        state.lock([instance.id])
        if host_commands.of_kind(instance, self.body).exists():
            raise ConflictError(f"Cannot '{self.record}' instance {instance.id} while another one is in progress.")

    def send(self, host: Host, instance: Instance, body: CommandBody) -> None:
        """Send the command with its own deadline."""
        deadline = timezone.now() + timedelta(seconds=getattr(settings, self.timeout))
        host_commands.send(host.id, instance.id, instance.attempt, body, deadline, beside=True)

    def end(self, instance: Instance, body: B, outcome: Outcome) -> Instance | None:
        """Close the action record and report a failure."""
        fault = "" if outcome.well else outcome.message or COULD_NOT
        if not outcome.well:
            record_fault(instance, fault, details=f"{self.record}: {outcome.code}", host_name=instance.host_name)
        if self.notification:
            phase = "end" if outcome.well else "error"
            note = Note(fault=fault, cause=outcome.code, more=self.notification_fields(body))
            notify(instance, f"{self.notification}.{phase}", note)
        self.write_end(instance, self.row_of(instance, body), outcome)
        return instance

    def close(self, row: InstanceAction, failure: str | None) -> None:
        """Close only this action record: other records of the same action may be in progress."""
        instance_actions.close(row, failure)

    def row_of(self, instance: Instance, body: B) -> InstanceAction | None:
        """Return the action record of this command."""
        return instance_actions.current(instance.id, self.record)
