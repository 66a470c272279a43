"""Resizes and moves to other hosts: migrate, live migrate, evacuate."""

from typing import Any

from django.conf import settings

from portal.api.compute.dialect import BOOLEAN, HOST, boolean
from portal.api.compute.server_actions.lifecycle import guest_password
from portal.api.compute.server_actions.registry import NOTHING, Action, with_body
from portal.api.compute.servers.shapes import ServerView
from portal.api.frame import Json, Schema, Version
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions import migrate as migrations
from provisioning.compute.actions.evacuate import Evacuate, Evacuation
from provisioning.compute.actions.live_migrate import LiveMigrate, LiveMigration
from provisioning.compute.actions.resize import ConfirmResize, resize
from provisioning.identity import policy

RESIZE = {
    "type": "object",
    "properties": {
        "flavorRef": {"type": ["string", "integer"], "minLength": 1, "maxLength": 255},
        "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
    },
    "required": ["flavorRef"],
    "additionalProperties": False,
}


def _resize(view: ServerView, server_id: str, body: Any) -> None:
    resize(view.context, server_id, str(body["flavorRef"]), disk_config=body.get("OS-DCF:diskConfig"))


def _confirm(view: ServerView, server_id: str, body: Any) -> None:
    ConfirmResize.begin(view.context, server_id)


_RESIZES = {
    **with_body("resize", RESIZE, _resize),
    **with_body("confirm_resize", NOTHING, _confirm, status=204),
}


_MAYBE_HOST: Schema = HOST | {"type": ["string", "null"]}
TO_HOST = (2, 56)
AUTO, FORCED, NEVER_FORCED = (2, 25), (2, 30), (2, 68)
STORAGE_KNOWN, EVACUATE_FORCED, STAYS_STOPPED = (2, 14), (2, 29), (2, 95)


def migrate(version: Version) -> Schema:
    """Return the schema of ``migrate``: a host may be specified from 2.56 on."""
    if version < TO_HOST:
        return NOTHING
    return {"type": ["object", "null"], "properties": {"host": _MAYBE_HOST}, "additionalProperties": False}


def migrate_live(version: Version) -> Schema:
    """Return the schema of ``os-migrateLive``: ``block_migration`` may be ``auto`` from 2.25 on, which also removed
    ``disk_over_commit``; ``force`` exists from 2.30 to 2.67.
    """
    block: Schema = BOOLEAN if version < AUTO else {"enum": [*BOOLEAN["enum"], "auto"]}
    properties: dict[str, Schema] = {"host": _MAYBE_HOST, "block_migration": block}
    if version < AUTO:
        properties["disk_over_commit"] = BOOLEAN
    required = list(properties)
    if FORCED <= version < NEVER_FORCED:
        properties["force"] = BOOLEAN
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def evacuate(version: Version) -> Schema:
    """Return the schema of ``evacuate``: ``onSharedStorage`` is required until 2.13; ``force`` exists from 2.29 to
    2.67.
    """
    properties: dict[str, Schema] = {
        "host": HOST,
        "adminPass": {"type": "string", "maxLength": 255},
    }
    required = []
    if version < STORAGE_KNOWN:
        properties["onSharedStorage"] = BOOLEAN
        required = ["onSharedStorage"]
    if EVACUATE_FORCED <= version < NEVER_FORCED:
        properties["force"] = BOOLEAN
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _migrate(view: ServerView, server_id: str, body: Any) -> None:
    host = body.get("host") if isinstance(body, dict) and view.microversion >= TO_HOST else None
    if host is not None:
        policy.enforce(view.context, "os_compute_api:os-migrate-server:migrate:host")
    migrations.migrate(view.context, server_id, host)


def _migrate_live(view: ServerView, server_id: str, body: Any) -> None:
    if body["host"] is not None:
        policy.enforce(view.context, "os_compute_api:os-migrate-server:migrate_live:host")
    if boolean(body.get("force", False)) and not body["host"]:
        raise InvalidInputError("Can't force to a non-provided destination", field="host")
    block = None if body["block_migration"] == "auto" else boolean(body["block_migration"])
    LiveMigrate.begin(view.context, server_id, LiveMigration(body["host"] or "", block))


def _evacuate(view: ServerView, server_id: str, body: Any) -> Json | None:
    """Answer with the password until 2.13. From 2.95 on the server is stopped afterwards."""
    if boolean(body.get("force", False)) and not body.get("host"):
        raise InvalidInputError("Can't force to a non-provided destination", field="host")
    shows_password = view.microversion < STORAGE_KNOWN
    password = guest_password(body) if shows_password else body.get("adminPass")
    request = Evacuation(body.get("host") or "", password, start=view.microversion < STAYS_STOPPED)
    Evacuate.begin(view.context, server_id, request)
    return {"adminPass": password} if shows_password and settings.ENABLE_INSTANCE_PASSWORD else None


_MOVES = {
    "migrate": Action("os_compute_api:os-migrate-server:migrate", migrate, _migrate),
    "os-migrateLive": Action("os_compute_api:os-migrate-server:migrate_live", migrate_live, _migrate_live),
    "evacuate": Action("os_compute_api:os-evacuate", evacuate, _evacuate, status=200),
}


ACTIONS = {**_RESIZES, **_MOVES}
