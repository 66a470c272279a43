"""GetConsoleOutput and GetPasswordData."""

import base64
from typing import Any

from django.utils import timezone

from portal.api.ec2.actions.instances import related as reading
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.compute.models import Instance
from provisioning.compute.services.console import console_output
from provisioning.compute.states import VmState

MOST_BYTES = 64 << 10
"""Maximum bytes of console output in a response; as in EC2, only the end of a longer output is returned."""
MISSING = "InvalidInstanceID.NotFound"


def _one(call: Call) -> Instance:
    """Return the instance. Raises Ec2Error if it is terminated."""
    instance = reading.wanted(call, [call.arguments["InstanceId"]])[0]
    if instance.vm_state in (VmState.DELETED, VmState.SOFT_DELETED):
        raise Ec2Error("IncorrectInstanceState", f"The instance '{call.arguments['InstanceId']}' is terminated")
    return instance


@action(
    "GetConsoleOutput",
    "os_compute_api:os-console-output",
    takes="InstanceId",
    passes_over="Latest",
    missing=MISSING,
    conflict="IncorrectInstanceState",
)
def get_console_output(call: Call) -> dict[str, Any]:
    """Return the end of the console output."""
    instance = _one(call)
    text = console_output(call.context, instance.id).encode(errors="replace")[-MOST_BYTES:]
    return {
        "InstanceId": call.arguments["InstanceId"],
        "Timestamp": timezone.now(),
        "Output": base64.b64encode(text).decode(),
    }


@action("GetPasswordData", "os_compute_api:os-server-password:show", takes="InstanceId", missing=MISSING)
def get_password_data(call: Call) -> dict[str, Any]:
    """Return the administrator's password that the guest has posted, encrypted with the public key of the instance's
    key pair.
    """
    instance = _one(call)
    return {
        "InstanceId": call.arguments["InstanceId"],
        "Timestamp": timezone.now(),
        "PasswordData": instance.password,
    }
