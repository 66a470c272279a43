"""``/v3/domains``."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.identity import fields
from portal.api.identity.base import CollectionView, DomainView
from portal.api.identity.directory import lists, schemas, shapes
from provisioning.identity.directory.lists import domains
from provisioning.identity.models import Domain
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.domains import create_domain, delete_domain, update_domain

COLUMNS = frozenset({"id", "name", "description", "enabled", "explicit_domain_id"})
"""``tags`` and ``options`` are stored with the additional fields."""


class DomainsView(CollectionView):
    """``/v3/domains``."""

    rules = {"GET": "novella:find_domain", "POST": "identity:create_domain"}
    schemas: ClassVar[Schemas] = {"POST": schemas.DOMAIN_CREATE}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(lists.DOMAINS)}
    listing_rule = "identity:list_domains"
    what = "domain"

    def get(self, request: Request) -> Response:
        within = self.within if self.sees_all(request) else self.context.user_domain_id
        found = domains(lists.read(request, lists.DOMAINS), within=within)
        self.refuse_others(request, found)
        return Response(lists.answer(request, "domains", found, shapes.domain, "/domains"))

    def post(self, request: Request) -> Response:
        body = self.checked_body()["domain"]
        fields.refuse(body, "id")
        made = create_domain(
            body["name"],
            domain_id=body.get("explicit_domain_id"),
            description=fields.text(body.get("description")),
            enabled=body.get("enabled", True),
            extra=fields.further(body, COLUMNS),
        )
        return Response({"domain": shapes.domain(request, made)}, status=201)


class OneDomainView(DomainView):
    """``/v3/domains/{id}``."""

    rules = {
        "GET": "identity:get_domain",
        "PATCH": "identity:update_domain",
        "DELETE": "identity:delete_domain",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.DOMAIN_UPDATE}
    what = "domain"

    def policy_target(self) -> dict[str, object]:
        """Return the domain's id."""
        return {"domain_id": self.kwargs["domain_id"]}

    def get(self, request: Request, domain_id: str) -> Response:
        return Response({"domain": shapes.domain(request, existing(Domain, domain_id))})

    def patch(self, request: Request, domain_id: str) -> Response:
        """Update the specified fields."""
        domain = existing(Domain, domain_id)
        body = self.checked_body()["domain"]
        fields.refuse(body, "explicit_domain_id")
        fields.refuse_change(body, {"id": domain.id})
        update_domain(domain, **fields.changes(body, COLUMNS, "name", "enabled"))
        return Response({"domain": shapes.domain(request, domain)})

    def delete(self, request: Request, domain_id: str) -> Response:
        """Delete a disabled domain with all its contents."""
        delete_domain(existing(Domain, domain_id))
        return Response(status=204)
