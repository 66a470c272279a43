"""Commands to connect to an instance."""

import re
import shlex
from dataclasses import dataclass

from portal.dashboard.copy_as.client_files import CLOUD
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.compute.services.tunnels import RULE
from provisioning.identity import policy
from provisioning.network.selectors.instances import PortAddress

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LOGIN = "os_admin_user"
"""Glance's property for the login user of an image."""


LONGEST_NAME = 64
"""Maximum number of characters of an instance's name in a command; a longer name is replaced by the id."""


@dataclass(frozen=True, slots=True)
class Connect:
    """The commands that connect to a server, and a hint; an empty command is not available to this user."""

    command: str
    hint: str
    tunnel: str = ""
    """``novella ssh``, which needs no route to the guest's network."""


def connect_for(context: RequestContext, instance: Instance, addresses: list[PortAddress]) -> Connect | None:
    """Return the ssh command for the first floating IP, otherwise for the first address; None without an address.

    The login user is specified by the image, by default ``root``.
    """
    if not addresses:
        return None
    key = f"-i ~/.ssh/{shlex.quote(instance.key_name)} " if instance.key_name else ""
    outside = next((address for entry in addresses for address in entry.floating), "")
    login = instance.image_properties.get(LOGIN) or "root"
    target = shlex.quote(f"{login}@{outside or addresses[0].address}")
    tunnel = f"novella ssh --os-cloud {CLOUD} {key}{_name(instance)}" if _may_tunnel(context, instance) else ""
    return Connect(f"ssh {key}{target}", _hint(instance, addresses[0], outside), tunnel)


def _may_tunnel(context: RequestContext, instance: Instance) -> bool:
    target = {"project_id": str(instance.project_id), "user_id": str(instance.user_id)}
    return instance.project_id == context.project_id and policy.allows(context, RULE, target)


def _name(instance: Instance) -> str:
    """Return the instance's name if it is unique and needs no quoting in any shell, otherwise its id."""
    return (
        instance.name
        if len(instance.name) <= LONGEST_NAME
        and _PLAIN.fullmatch(instance.name)
        and compute.has_its_name_alone(instance)
        else str(instance.id)
    )


def _hint(instance: Instance, address: PortAddress, outside: str) -> str:
    if outside:
        where = "Run it where the floating IP can be reached; a security group must allow port 22."
    else:
        where = (
            f"Only guests on {bdi(address.network)} and behind its routers reach this address;"
            " a floating IP makes it reachable from outside."
        )
    key = (
        f"The key file is the private key of {bdi(instance.key_name)} on your computer."
        if instance.key_name
        else "Launched without a key pair: log in with the password that was shown at the launch, or as the image and"
        " the user data allow."
    )
    return f"{where} {key}"
