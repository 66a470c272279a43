"""Pausing, saving and interrupting a guest, and a password set by the agent inside it."""

from __future__ import annotations

from typing import Any

import libvirt

from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.power import from_state

UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)
"""What goes with a domain that is removed."""
_NO_AGENT = {
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    libvirt.VIR_ERR_AGENT_UNSYNCED,
    libvirt.VIR_ERR_OPERATION_INVALID,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
}


def pause(domain: Any) -> None:
    """Stop its processors; UnsupportedError when it does not run."""
    with translated("pause the guest"):
        if from_state(*domain.state()) is PowerState.PAUSED:
            return
        if not domain.isActive():
            raise UnsupportedError("The guest does not run.")
        domain.suspend()


def unpause(domain: Any) -> None:
    """Let its processors go on."""
    with translated("let the guest go on"):
        if from_state(*domain.state()) is not PowerState.RUNNING:
            domain.resume()


def suspend(domain: Any) -> None:
    """Save its memory and power it off."""
    with translated("save the guest"):
        if domain.isActive():
            domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)


def crash_dump(domain: Any) -> None:
    """Interrupt it; UnsupportedError when it does not run."""
    with translated("interrupt the guest"):
        if not domain.isActive():
            raise UnsupportedError("The guest does not run.")
        domain.injectNMI()


def set_password(domain: Any, user: str, password: str) -> None:
    """Ask its agent to set a password; UnsupportedError when none answers."""
    try:
        domain.setUserPassword(user, password)
    except libvirt.libvirtError as error:
        if error.get_error_code() in _NO_AGENT:
            raise UnsupportedError("The guest's agent does not answer.", detail=str(error)) from error
        with translated("set the password"):
            raise
