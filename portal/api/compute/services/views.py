"""Compute services (Compute API reference, "Compute services")."""

import uuid
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.numbers import read_number
from portal.api.compute.schemas import boolean, last
from portal.api.compute.services import schemas as service_schemas
from portal.api.compute.services.schemas import BY_ID, FORCED_DOWN
from portal.api.compute.timestamps import timestamp_micro
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.compute.selectors.compute_services import (
    COMPUTE,
    ComputeService,
    compute_service_for,
    compute_services_for,
    service_of,
)
from provisioning.compute.services.forget_host import forget_host
from provisioning.compute.services.hosts import change_host


class ServiceBase(ComputeView):
    """Base of the compute service views."""

    def shape(self, service: ComputeService) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "id": str(service.id) if self.microversion >= BY_ID else service.number,
            "binary": service.binary,
            "host": service.host,
            "zone": service.zone,
            "status": "enabled" if service.enabled else "disabled",
            "state": "up" if service.up else "down",
            "updated_at": timestamp_micro(service.updated_at),
            "disabled_reason": service.disabled_reason or None,
        }
        if self.microversion >= FORCED_DOWN:
            shape["forced_down"] = service.forced_down
        return shape


class ServicesView(ServiceBase):
    """``GET /os-services``."""

    rules = {"GET": "os_compute_api:os-services:list"}
    queries = {"GET": service_schemas.listing}

    def get(self, request: Request) -> Response:
        """List the agents of the hosts and the workers, under Nova's names."""
        query = self.checked_query()
        found = compute_services_for(
            self.context, host=last(query, "host") or None, binary=last(query, "binary") or None
        )
        return Response({"services": [self.shape(service) for service in found]})


class ServiceView(ServiceBase):
    """``PUT`` and ``DELETE /os-services/{id}``; before 2.53 ``PUT`` is to ``enable``, ``disable`` and similar paths."""

    rules = {"PUT": "os_compute_api:os-services:update", "DELETE": "os_compute_api:os-services:delete"}
    schemas = {"PUT": service_schemas.update}

    def put(self, request: Request, service_id: str) -> Response:
        """Enable or disable a host, or force it down."""
        if self.microversion < BY_ID:
            return Response({"service": self._by_name(service_id)})
        ident = self.ident(service_id)
        body = self.checked_body()
        service = self.compute_service(ident)
        wanted = body.get("status")
        if "disabled_reason" in body and wanted != "disabled":
            raise InvalidInputError(
                "Specifying 'disabled_reason' is only allowed when status is 'disabled'.", field="disabled_reason"
            )
        if wanted is None and "forced_down" not in body:
            raise InvalidInputError(
                "No updates were requested. Fields 'status' or 'forced_down' should be specified.", field="status"
            )
        host = change_host(
            self.context,
            service.id,
            enabled=None if wanted is None else wanted == "enabled",
            reason=body.get("disabled_reason", ""),
            forced_down=boolean(body["forced_down"]) if "forced_down" in body else None,
        )
        return Response({"service": self.shape(service_of(host, timezone.now()))})

    def delete(self, request: Request, service_id: str) -> Response:
        """Remove a host that has no servers."""
        service = compute_service_for(self.context, self.ident(service_id))
        if service.binary != COMPUTE:
            raise ConflictError(f"The {service.binary} of {service.host} is up; stop it to remove it from the list.")
        forget_host(self.context, service.id)
        return Response(status=204)

    def ident(self, text: str) -> uuid.UUID | int:
        """Read an id in the microversion's format. Raises InvalidInputError."""
        found = read_id(text) if self.microversion >= BY_ID else None
        if found is not None:
            return found
        if self.microversion >= BY_ID:
            raise InvalidInputError(f"Invalid uuid {text[:64]}", field="service_id")
        return read_number(text)

    def compute_service(self, ident: uuid.UUID | int) -> ComputeService:
        """Return the service of a host's agent; services of workers cannot be changed."""
        service = compute_service_for(self.context, ident)
        _refuse_worker(service)
        return service

    def _by_name(self, verb: str) -> dict[str, Any]:
        """Update the service that the body specifies by host and binary, and return the changed fields."""
        if verb not in {"enable", "disable", "disable-log-reason", *(["force-down"] * (self.microversion >= (2, 11)))}:
            raise NotFoundError("Unknown action")
        body = self.checked_body()
        named = {"host": body["host"], "binary": body["binary"]}
        found = compute_services_for(self.context, **named)
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


def _refuse_worker(service: ComputeService) -> None:
    if service.binary != COMPUTE:
        raise InvalidInputError(
            f"Updating a {service.binary} service is not supported. Only nova-compute services can be updated.",
            field="binary",
        )
