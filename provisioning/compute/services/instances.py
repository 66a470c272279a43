"""Updates of a server without a command to its host: name, description, addresses."""

import uuid
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.host_link import guest_changes
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.records.names import check_hostname, check_name, check_text
from provisioning.compute.state_machine import state
from provisioning.network import services as network
from provisioning.network.addressing import read_address


class Changes(TypedDict, total=False):
    """Attributes that the owner may change; absent: unchanged."""

    name: str
    description: str | None
    """None removes it."""
    hostname: str
    access_ip_v4: str
    """The server's ``accessIPv4``; an empty text removes it."""
    access_ip_v6: str
    disk_config: str
    """``MANUAL`` or ``AUTO``."""


def _description(value: str | None) -> str | None:
    return None if value is None else check_text(value, "description")


def _address(version: int) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not value:
            return ""
        try:
            address = read_address(value)
        except ValueError:
            address = None
        if address is None or address.version != version:
            raise InvalidInputError(f"{value[:64]!r} is not an IPv{version} address.", field=f"accessIPv{version}")
        return str(address)

    return check


def _disk_config(value: str) -> str:
    if value not in {"MANUAL", "AUTO"}:
        raise InvalidInputError("OS-DCF:diskConfig must be AUTO or MANUAL.", field="OS-DCF:diskConfig")
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": check_name,
    "description": _description,
    "hostname": check_hostname,
    "access_ip_v4": _address(4),
    "access_ip_v6": _address(6),
    "disk_config": _disk_config,
}


def update(context: RequestContext, instance_id: uuid.UUID | str, **changes: Unpack[Changes]) -> Instance:
    """Update the attributes of a server. Raises NotFoundError, InvalidInputError, ConflictError."""
    return write(context, instance_id, check_changes(changes))


def check_changes(changes: Changes) -> dict[str, Any]:
    """Return the columns of the changes. Raises InvalidInputError with the field of an invalid one."""
    return {name: _CHECKS[name](value) for name, value in changes.items()}


def write(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    columns: dict[str, Any] | Callable[[Instance], dict[str, Any]],
    after: Callable[[Instance], None] | None = None,
) -> Instance:
    """Write columns of a server, given or calculated from its current state, and call ``after`` in the same
    transaction.

    Raises NotFoundError, the errors of ``columns``, and ConflictError for a server that keeps changing concurrently.
    """
    for _ in range(20):
        with transaction.atomic():
            instance = selectors.instance_for(context, instance_id)
            changed = columns(instance) if callable(columns) else columns
            if not changed:
                return instance
            note = Note(context, service="nova-api")
            if state.update(instance, changed, note):  # locks the row until the end of the transaction
                if "hostname" in changed:
                    network.set_dns_name(instance.id, instance.hostname.lower())
                guest_changes.changed(instance, changed)
                if after is not None:
                    after(instance)
                return instance
    raise ConflictError("The server is changing too quickly; try again.")


def clear_password(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Delete the password that the guest has posted (``os-server-password``). Raises NotFoundError."""
    return write(context, instance_id, {"password": ""})
