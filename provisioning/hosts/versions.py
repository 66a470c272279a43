"""Agents with an older version of the contract: they receive everything that they support.

An older agent ignores unknown fields. A command or call of a newer version is not sent to it: the command fails, the
call is answered with an error, and both messages ask the operator to upgrade the agent.
"""

import uuid
from collections.abc import Iterable

from compute_agent.contract.base import Message
from compute_agent.contract.calls import Call, CallError
from compute_agent.contract.messages import OLDEST_CONTRACT, AgentEvent, Command
from provisioning.hosts import calls, commands, reports
from provisioning.hosts.models import Host

UNSUPPORTED = "unsupported"
"""Error code of commands and calls that the agent is too old for."""


def commands_for(host_id: uuid.UUID) -> list[Command]:
    """Return the commands to send to the host now, and fail those that its agent is too old for."""
    waiting = commands.pending(host_id)
    version = _version_for(host_id, (command.body for command in waiting))
    withheld = [command for command in waiting if command.body.needed_version() > version]
    if withheld:
        reports.receive(host_id, [_failed(command, version) for command in withheld])
    return [command for command in waiting if command.body.needed_version() <= version]


def calls_for(host_id: uuid.UUID) -> list[Call]:
    """Return the calls to send to the host now, and answer those that its agent is too old for."""
    calls_pending = calls.pending_calls(host_id)
    version = _version_for(host_id, (call.body for call in calls_pending))
    for call in calls_pending:
        if call.body.needed_version() > version:
            calls.answer(host_id, call.id, CallError(code=UNSUPPORTED, message=_reason(call.body, version)))
    return [call for call in calls_pending if call.body.needed_version() <= version]


def _version_for(host_id: uuid.UUID, bodies: Iterable[Message]) -> int:
    """Return the version of the host's agent; it is read only if a message needs more than the oldest version."""
    needed = max((body.needed_version() for body in bodies), default=0)
    if needed <= OLDEST_CONTRACT:
        return needed
    return Host.objects.values_list("contract_version", flat=True).get(id=host_id)


def _failed(command: Command, version: int) -> AgentEvent:
    return AgentEvent(
        seq=0,
        subject_kind=command.subject_kind,
        subject_id=command.subject_id,
        generation=command.generation,
        kind="failed",
        command_id=command.id,
        error_code=UNSUPPORTED,
        message=_reason(command.body, version),
        retryable=True,
    )


def _reason(body: Message, version: int) -> str:
    return (
        f"This needs version {body.needed_version()} of the agents' contract, the host's agent has version {version}."
        " Upgrade the agent."
    )
