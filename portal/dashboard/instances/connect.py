"""How to get into an instance: the exact command."""

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute.models import Instance
from provisioning.images import selectors as images
from provisioning.network.selectors.instances import PortAddress

NAMESPACES = Path("/run/netns")
LOGIN = "os_admin_user"
"""Glance's property for the login user of an image."""


@dataclass(frozen=True, slots=True)
class Connect:
    """A command and what one should know about it."""

    command: str
    hint: str


def connect_for(context: RequestContext, instance: Instance, addresses: list[PortAddress]) -> Connect | None:
    """Return the ssh command for the first address; None while there is no address.

    The login is what the image says, else ``root``.  On a machine where ``bin/up`` made a network namespace for the
    guests, the command enters it: that is the only place from which they are reached without further routing.
    """
    if not addresses:
        return None
    key = f"-i ~/.ssh/{shlex.quote(instance.key_name)} " if instance.key_name else ""
    target = shlex.quote(f"{_login(context, instance)}@{addresses[0].address}")
    namespace = _namespace()
    enter = f"sudo ip netns exec {namespace} " if namespace else ""
    return Connect(f"{enter}ssh {key}{target}", _hint(instance, addresses[0], namespace))


def _login(context: RequestContext, instance: Instance) -> str:
    if instance.image_id is None:
        return "root"
    try:
        image = images.image_for(context, instance.image_id)
    except NotFoundError:
        return "root"
    return str(image.properties.get(LOGIN) or "root")


def _namespace() -> str:
    """Return the network namespace of this machine's guests, as bin/up names it, or nothing when there is none."""
    name = f"novella-{hashlib.sha256(str(settings.DATA_DIR).encode()).hexdigest()[:8]}"
    return name if (NAMESPACES / name).exists() else ""


def _hint(instance: Instance, address: PortAddress, namespace: str) -> str:
    where = (
        "Run it on the machine that runs Novella: its guests live in a network of their own."
        if namespace
        else f"Run it where the network {address.network_name} can be reached."
    )
    key = (
        f"The key is the private half of {instance.key_name}, wherever you keep it."
        if instance.key_name
        else "No key pair was given: the guest lets in whom its image or user data let in."
    )
    return f"{where} {key}"
