"""Trim: release unused disk blocks of a guest on its host."""

from compute_agent.contract.commands import TrimRequest
from provisioning.compute.actions.base import Prepared
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.actions.ways import Button
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState


class Trim(TasklessAction[None, TrimRequest]):
    """Discard unused blocks of the file systems through the guest agent; Nova has no such action."""

    key = record = api = notification = "trim"
    done = "Trimmed"
    rule = "novella:servers:trim"
    rule_description = "Discard the unused disk blocks of a server."
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
        "Disk blocks that the guest no longer uses are released on the host. The guest keeps running.",
        "{name} is trimming its disks.",
    )

    def command(self, instance: Instance, prepared: Prepared) -> TrimRequest:
        return TrimRequest()
