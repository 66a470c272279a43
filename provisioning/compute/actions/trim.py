"""Trim: a guest gives back to its host the blocks of its disks that it no longer uses."""

from compute_agent.contract.commands import TrimRequest
from provisioning.compute.actions.base import Button, Prepared, TasklessAction
from provisioning.compute.actions.registry import action
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState


@action
class Trim(TasklessAction[None, TrimRequest]):
    """Let the agent inside the guest discard what its file systems do not use; Nova has no such action."""

    key = record = api = notification = "trim"
    done = "Trimmed"
    rule = "novella:servers:trim"
    rule_description = "Have a server give the disk blocks that it no longer uses back to its host."
    needs_agent = "The disks cannot be trimmed"
    from_states = (VmState.ACTIVE,)
    timeout = "POWER_TIMEOUT"
    body = TrimRequest
    button = Button(
        115,
        "trim",
        "Trim",
        "scissors",
        "Trim the disks of {name}?",
        "Disk blocks that the guest no longer uses are given back to the host. The guest goes on meanwhile.",
        "{name} is trimming its disks.",
    )

    def command(self, instance: Instance, prepared: Prepared) -> TrimRequest:
        return TrimRequest()
