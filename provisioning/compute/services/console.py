"""The console log and the diagnostics of a server, requested from its host."""

import uuid

from compute_agent.contract.calls import CallError, ConsoleOutput, ConsoleOutputCall, Diagnostics, DiagnosticsCall
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, UnavailableError
from provisioning.compute import selectors
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.states import VmState
from provisioning.hosts import calls

TIMEOUT = 10.0
"""Seconds that a host has to answer."""
_THERE = {VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.RESCUED, VmState.RESIZED, VmState.STOPPED}


def console_output(context: RequestContext, instance_id: uuid.UUID | str, lines: int | None = None) -> str:
    """Return the last ``lines`` lines of the guest's output (None: all stored lines). The text is untrusted.

    Raises NotFoundError, ConflictError while no host has the guest, UnavailableError when its host does not answer.
    """
    instance = selectors.instance_for(context, instance_id)
    if instance.host_id is None:
        raise ConflictError(f"Instance {instance.id} is not ready")
    if lines == 0:
        return ""
    result = calls.call(instance.host_id, ConsoleOutputCall(instance_id=str(instance.id), lines=lines), timeout=TIMEOUT)
    if isinstance(result, ConsoleOutput):
        return result.text
    if isinstance(result, CallError) and result.code == "not_found":
        raise ConflictError(f"Instance {instance.id} is not ready")
    raise UnavailableError("The console log cannot be read now.")


def diagnostics(context: RequestContext, instance_id: uuid.UUID | str) -> Diagnostics:
    """Return the hypervisor's counters of a server.

    Raises NotFoundError, InstanceBusyError while no host has the guest, ConflictError when the host has no diagnostics
    of it, UnavailableError when the host does not answer.
    """
    instance = selectors.instance_for(context, instance_id)
    if instance.host_id is None or instance.vm_state not in _THERE:
        raise InstanceBusyError("get_diagnostics", instance.id, instance.vm_state, None)
    result = calls.call(instance.host_id, DiagnosticsCall(instance_id=str(instance.id)), timeout=TIMEOUT)
    if isinstance(result, Diagnostics):
        return result
    if isinstance(result, CallError) and result.code in {"not_found", "unsupported"}:
        raise ConflictError(f"Instance {instance.id} has no diagnostics now: {result.message}")
    raise UnavailableError("The server's counters cannot be read now.")
