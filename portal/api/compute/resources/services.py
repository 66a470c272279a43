"""Compute services (Compute API reference, "Compute services")."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.common.validation import Schema
from portal.api.compute.dialect.resource import (
    COMPUTE,
    ID,
    SHOWN,
    TEXT_OR_NULL,
    TIME,
    DetailView,
    ListView,
    Resource,
    ResourceView,
)
from portal.api.compute.dialect.schemas import BOOLEAN, HOST, TEXT, boolean, read_number
from portal.api.frame.attributes import Attribute, Parameter
from portal.api.frame.resource import Operation
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute.selectors import compute_services as selectors
from provisioning.compute.selectors.compute_services import ComputeService
from provisioning.compute.services.forget_host import forget_host
from provisioning.compute.services.hosts import change_host

LAST_NUMBERS, BY_ID = (2, 52), (2, 53)
"""The last version with numbers as ids, and the first with UUIDs."""
FORCED_DOWN = (2, 11)
_WORD: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def _body(version: Version) -> Schema:
    """Return the schema of ``PUT /os-services/{id}``, and before 2.53 of ``PUT /os-services/enable`` and similar
    paths.
    """
    properties: Schema = {"disabled_reason": _WORD}
    if version >= FORCED_DOWN:
        properties["forced_down"] = BOOLEAN
    required = []
    if version >= BY_ID:
        properties["status"] = {"enum": ["enabled", "disabled"]}
    else:
        properties |= {"host": HOST, "binary": _WORD}
        required = ["host", "binary"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(view: ListView, query: Mapping[str, str]) -> list[ComputeService]:
    return selectors.compute_services_for(
        view.context, host=query.get("host") or None, binary=query.get("binary") or None
    )


def _ident(view: ResourceView, text: str) -> uuid.UUID | int:
    """Read an id in the microversion's format. Raises InvalidInputError."""
    if view.microversion < BY_ID:
        return read_number(text)
    found = read_id(text)
    if found is None:
        raise InvalidInputError(f"Invalid uuid {text[:64]}", field="service_id")
    return found


def _delete(view: ResourceView, identity: str) -> None:
    service = selectors.compute_service_for(view.context, _ident(view, identity))
    if service.binary != selectors.COMPUTE:
        raise ConflictError(f"The {service.binary} of {service.host} is up; stop it to remove it from the list.")
    forget_host(view.context, service.id)


def _refuse_worker(service: ComputeService) -> None:
    if service.binary != selectors.COMPUTE:
        raise InvalidInputError(
            f"Updating a {service.binary} service is not supported. Only nova-compute services can be updated.",
            field="binary",
        )


class ServiceView(DetailView):
    """``PUT`` and ``DELETE /os-services/{id}``; before 2.53 ``PUT`` is to ``enable``, ``disable`` and similar paths."""

    rules = {"PUT": "os_compute_api:os-services:update"}
    schemas = {"PUT": _body}

    def put(self, request: Request, identity: str) -> Response:
        """Enable or disable a host, or force it down."""
        if self.microversion < BY_ID:
            return Response({"service": self._by_name(identity)})
        ident = _ident(self, identity)
        body = self.checked_body()
        service = selectors.compute_service_for(self.context, ident)
        _refuse_worker(service)
        requested = body.get("status")
        if "disabled_reason" in body and requested != "disabled":
            raise InvalidInputError(
                "Specifying 'disabled_reason' is only allowed when status is 'disabled'.", field="disabled_reason"
            )
        if requested is None and "forced_down" not in body:
            raise InvalidInputError(
                "No updates were requested. Fields 'status' or 'forced_down' should be specified.", field="status"
            )
        host = change_host(
            self.context,
            service.id,
            enabled=None if requested is None else requested == "enabled",
            reason=body.get("disabled_reason", ""),
            forced_down=boolean(body["forced_down"]) if "forced_down" in body else None,
        )
        [shape] = self.shapes([selectors.service_of(host, timezone.now())])
        return Response({"service": shape})

    def _by_name(self, verb: str) -> dict[str, Any]:
        """Update the service that the body specifies by host and binary, and return the changed fields."""
        if verb not in {"enable", "disable", "disable-log-reason", *(["force-down"] * (self.microversion >= (2, 11)))}:
            raise NotFoundError("Unknown action")
        body = self.checked_body()
        named = {"host": body["host"], "binary": body["binary"]}
        found = selectors.compute_services_for(self.context, **named)
        if not found:
            raise NotFoundError(f"Could not find binary {body['binary']} on host {body['host']}.")
        _refuse_worker(found[0])
        if verb == "force-down":
            if "forced_down" not in body:
                raise InvalidInputError("Missing forced_down field", field="forced_down")
            host = change_host(self.context, found[0].id, forced_down=boolean(body["forced_down"]))
            return named | {"forced_down": host.forced_down}
        reason = body.get("disabled_reason", "")
        if verb == "disable-log-reason" and not reason:
            raise InvalidInputError("Missing disabled reason field", field="disabled_reason")
        logged = verb == "disable-log-reason"
        host = change_host(self.context, found[0].id, enabled=verb == "enable", reason=reason if logged else "")
        status = {"status": "enabled" if host.enabled else "disabled"}
        return named | status | ({"disabled_reason": host.disabled_reason} if logged else {})


SERVICE = Resource(
    name="service",
    path="os-services",
    list=Operation(
        _list,
        "os_compute_api:os-services:list",
        "List the agents of the hosts and the workers, under Nova's names.",
        parameters=(Parameter("host", TEXT), Parameter("binary", TEXT)),
    ),
    delete=Operation(_delete, "os_compute_api:os-services:delete", "Remove a host that has no servers.", status=204),
    attributes=(
        Attribute("id", SHOWN, column="number", until=LAST_NUMBERS),
        Attribute("id", ID, since=BY_ID),
        Attribute("binary", SHOWN),
        Attribute("host", SHOWN),
        Attribute("zone", SHOWN),
        Attribute("status", SHOWN, show=lambda row: "enabled" if row.enabled else "disabled"),
        Attribute("state", SHOWN, show=lambda row: "up" if row.up else "down"),
        Attribute("updated_at", TIME),
        Attribute("disabled_reason", TEXT_OR_NULL),
        Attribute("forced_down", SHOWN, since=FORCED_DOWN),
    ),
)
SERVICES = replace(COMPUTE, details=ServiceView)
