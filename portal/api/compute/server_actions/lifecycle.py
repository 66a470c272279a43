"""Power, rescue, unshelving, lock and state of a server, and actions that were removed from the API."""

from typing import Any

from django.conf import settings

from portal.api.compute.server_actions.registry import NOTHING, ONLY_NULL, Action, plain, with_body
from portal.api.compute.servers.schemas import NAME, UUID
from portal.api.compute.servers.shapes import ServerView
from portal.api.frame import Json, Schema, Version
from provisioning.common.errors import GoneError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import inject_network_info
from provisioning.compute.actions.lock import lock
from provisioning.compute.actions.power import ChangePassword, reboot
from provisioning.compute.actions.registry import actions
from provisioning.compute.actions.rescue import rescue
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.unshelve import Destination, unshelve
from provisioning.compute.records.passwords import generate_password

REBOOT = {
    "type": "object",
    "properties": {"type": {"type": "string", "enum": ["SOFT", "HARD", "soft", "hard", "Soft", "Hard"]}},
    "required": ["type"],
    "additionalProperties": False,
}
PASSWORD = {
    "type": "object",
    "properties": {"adminPass": {"type": "string", "minLength": 1, "maxLength": 255}},
    "required": ["adminPass"],
    "additionalProperties": False,
}


def _reboot(view: ServerView, server_id: str, body: Any) -> None:
    reboot(view.context, server_id, hard=body["type"].upper() == "HARD")


def _change_password(view: ServerView, server_id: str, body: Any) -> None:
    ChangePassword.begin(view.context, server_id, body["adminPass"])


_POWER = {
    **with_body("reboot", REBOOT, _reboot),
    **with_body("change_password", PASSWORD, _change_password),
    "trigger_crash_dump": plain(actions["trigger_crash_dump"], ONLY_NULL, minimum=(2, 17)),
}


BOOTS_FROM_VOLUME = (2, 87)
"""From this version on a server that boots from a volume can be rescued."""
RESCUE = {
    "type": ["object", "null"],
    "properties": {"adminPass": {"type": "string", "maxLength": 255}, "rescue_image_ref": UUID},
    "additionalProperties": False,
}


def guest_password(body: Json) -> str | None:
    """Return the guest password in the body. Without one, return a generated password, or None if
    ``ENABLE_INSTANCE_PASSWORD`` is off.
    """
    specified = body.get("adminPass")
    if specified is None and settings.ENABLE_INSTANCE_PASSWORD:
        return generate_password()
    return specified


def _rescue(view: ServerView, server_id: str, body: Any) -> Json:
    values = body or {}
    password = guest_password(values)
    rescue(
        view.context,
        server_id,
        image_id=values.get("rescue_image_ref"),
        password=password,
        boots_from_volume=view.microversion >= BOOTS_FROM_VOLUME,
    )
    return {"adminPass": password} if settings.ENABLE_INSTANCE_PASSWORD else {}


_RESCUE = with_body("rescue", RESCUE, _rescue)


TO_A_ZONE: Version = (2, 77)
TO_A_HOST: Version = (2, 91)
_ZONE: Schema = {"type": ["string", "null"], "maxLength": 255, "pattern": r"^[^\x00]*\Z"}
_HOST: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"}


def unshelve_schema(version: Version) -> Schema:
    """Return the schema of the value of ``unshelve``: a zone from 2.77 on; from 2.91 on also a host, or null to unpin
    the zone.
    """
    if version < TO_A_ZONE:
        return NOTHING
    if version < TO_A_HOST:
        return {
            "type": ["object", "null"],
            "properties": {"availability_zone": NAME},
            "required": ["availability_zone"],
            "additionalProperties": False,
        }
    return {
        "type": ["object", "null"],
        "properties": {"availability_zone": _ZONE, "host": _HOST},
        "additionalProperties": False,
    }


def _unshelve(view: ServerView, server_id: str, body: Any) -> None:
    values = body if isinstance(body, dict) and view.microversion >= TO_A_ZONE else {}
    to = Destination(host=values.get("host", ""))
    if "availability_zone" in values:
        to = Destination(zone=values["availability_zone"], host=to.host)
    unshelve(view.context, server_id, to)


_SHELVE = with_body("unshelve", unshelve_schema, _unshelve)


STATE = {
    "type": "object",
    "properties": {"state": {"type": "string", "enum": ["active", "error"]}},
    "required": ["state"],
    "additionalProperties": False,
}


def _lock_schema(version: Version) -> Schema:
    if version < (2, 73):
        return NOTHING
    return {
        "type": ["object", "null"],
        "properties": {"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}},
        "additionalProperties": False,
    }


def _lock(view: ServerView, server_id: str, body: Any) -> None:
    reason = body.get("locked_reason") if isinstance(body, dict) and view.microversion >= (2, 73) else None
    lock(view.context, server_id, reason=reason)


def _reset_state(view: ServerView, server_id: str, body: Any) -> None:
    ResetState.begin(view.context, server_id, body["state"])


def _force_delete(view: ServerView, server_id: str, body: Any) -> None:
    delete(view.context, server_id, force=True)


def _inject_network_info(view: ServerView, server_id: str, body: Any) -> None:
    inject_network_info(view.context, server_id)


_STATE = {
    **with_body("lock", _lock_schema, _lock),
    **with_body("reset_state", STATE, _reset_state),
    "forceDelete": Action("os_compute_api:os-deferred-delete:force", NOTHING, _force_delete),
    "injectNetworkInfo": Action("os_compute_api:os-admin-actions:inject_network_info", NOTHING, _inject_network_info),
}


def _refuse_removed(view: ServerView, server_id: str, body: Any) -> None:
    raise GoneError("This resource is no longer available. No forwarding address is given.")


_REMOVED = {
    "resetNetwork": Action("novella:removed_apis", NOTHING, _refuse_removed),
}


ACTIONS = {**_POWER, **_RESCUE, **_SHELVE, **_STATE, **_REMOVED}
