"""Host aggregates (Compute API reference, "Host aggregates")."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.compute.aggregates import schemas as aggregate_schemas
from portal.api.compute.aggregates.schemas import ACTIONS
from portal.api.compute.base import ComputeView
from portal.api.compute.numbers import read_number
from portal.api.compute.timestamps import timestamp_micro
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.models import Aggregate
from provisioning.compute.selectors.aggregates import aggregate_for, aggregates_for
from provisioning.compute.services import aggregates as services

Act = Callable[[RequestContext, int, Any], Aggregate]


class AggregateBase(ComputeView):
    """Base of the aggregate views."""

    def shape(self, aggregate: Aggregate, *, whole: bool = True) -> dict[str, Any]:
        """Return the representation of an aggregate. With ``whole=False``, as in the response to its creation, it has
        no hosts and metadata.
        """
        zone = aggregate.availability_zone or None
        shape: dict[str, Any] = {
            "id": aggregate.pk,
            "name": aggregate.name,
            "availability_zone": zone,
            "created_at": timestamp_micro(aggregate.created_at),
            "updated_at": timestamp_micro(aggregate.updated_at),
            "deleted": False,
            "deleted_at": None,
        }
        if self.microversion >= (2, 41):
            shape["uuid"] = str(aggregate.uuid)
        if whole:
            shape["hosts"] = sorted(host.name for host in aggregate.hosts.all())
            shape["metadata"] = aggregate.metadata | ({"availability_zone": zone} if zone else {})
        return shape

    def answer(self, aggregate: Aggregate) -> Response:
        return Response({"aggregate": self.shape(aggregate)})


class AggregatesView(AggregateBase):
    """``GET`` and ``POST /os-aggregates``."""

    rules = {"GET": "os_compute_api:os-aggregates:index", "POST": "os_compute_api:os-aggregates:create"}
    schemas = {"POST": aggregate_schemas.CREATE}

    def get(self, request: Request) -> Response:
        return Response({"aggregates": [self.shape(aggregate) for aggregate in aggregates_for(self.context)]})

    def post(self, request: Request) -> Response:
        """Create an aggregate without hosts."""
        asked = self.checked_body()["aggregate"]
        made = services.create_aggregate(self.context, asked["name"], asked.get("availability_zone"))
        return Response({"aggregate": self.shape(made, whole=False)})


class AggregateView(AggregateBase):
    """``GET``, ``PUT`` and ``DELETE /os-aggregates/{id}``."""

    rules = {
        "GET": "os_compute_api:os-aggregates:show",
        "PUT": "os_compute_api:os-aggregates:update",
        "DELETE": "os_compute_api:os-aggregates:delete",
    }
    schemas = {"PUT": aggregate_schemas.UPDATE}

    def get(self, request: Request, aggregate_id: str) -> Response:
        return self.answer(aggregate_for(self.context, read_number(aggregate_id)))

    def put(self, request: Request, aggregate_id: str) -> Response:
        """Update the name, the zone or both."""
        asked = self.checked_body()["aggregate"]
        return self.answer(services.update_aggregate(self.context, read_number(aggregate_id), asked))

    def delete(self, request: Request, aggregate_id: str) -> Response:
        """Delete an aggregate that has no hosts."""
        services.delete_aggregate(self.context, read_number(aggregate_id))
        return Response(status=200)


class AggregateActionView(AggregateBase):
    """``POST /os-aggregates/{id}/action``: the body's only key is the name of the action."""

    rules = {"POST": "os_compute_api:os-aggregates:show"}
    action_rules = {name: f"os_compute_api:os-aggregates:{name}" for name in ACTIONS}
    schemas = {"POST": aggregate_schemas.ACTION}
    acts: ClassVar[Mapping[str, Act]] = {
        "add_host": lambda context, number, asked: services.add_host(context, number, asked["host"]),
        "remove_host": lambda context, number, asked: services.remove_host(context, number, asked["host"]),
        "set_metadata": lambda context, number, asked: services.set_aggregate_metadata(
            context, number, asked["metadata"]
        ),
    }

    def post(self, request: Request, aggregate_id: str) -> Response:
        """Add or remove a host, or change metadata."""
        number, name = read_number(aggregate_id), self._named()
        asked = self.body(ACTIONS[name])[name]
        return self.answer(self.acts[name](self.context, number, asked))

    def _named(self) -> str:
        """Return the name of the action in the body. Raises InvalidInputError."""
        body = self.request.data
        names = [str(name) for name in body] if isinstance(body, dict) else []
        if len(names) != 1 or names[0] not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise InvalidInputError(f"There is no such action: the body must name one of {known}.")
        return names[0]


class AggregateImagesView(AggregateBase):
    """``POST /os-aggregates/{id}/images`` (2.81): not supported."""

    rules = {"POST": "compute:aggregates:images"}
    schemas = {"POST": aggregate_schemas.IMAGES}
    versions = {"POST": ((2, 81), NEWEST)}

    def post(self, request: Request, aggregate_id: str) -> Response:
        """Refuse to cache images in advance: a host downloads and caches an image for the first server that uses it."""
        images = [image["id"] for image in self.checked_body()["cache"]]
        if len(set(images)) < len(images):
            raise InvalidInputError("Duplicate images in request", field="cache")
        aggregate_for(self.context, read_number(aggregate_id))
        raise InvalidInputError(
            "Fetching images beforehand is not offered by this cloud: a host fetches an image with the first server"
            " that needs it, and keeps it.",
            field="cache",
        )
