"""``/v3/roles/{prior}/implies`` and ``/v3/role_inferences``: implied roles."""

from collections.abc import Iterable

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.identity import fragments
from portal.api.identity.fragments import list_links
from portal.api.identity.roles.domain_scoped import DomainScopedView
from portal.api.identity.roles.roles import ROLE
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Role
from provisioning.identity.selectors.role_lookups import counts_beyond_domains, implied_roles, implies, inferences
from provisioning.identity.services.roles import imply, unimply


class ImpliedRolesView(DomainScopedView):
    """``/v3/roles/{prior}/implies``."""

    rules = {"GET": "identity:list_implied_roles"}

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the prior role; the implications of a global role can be read from every domain."""
        found = self.addressed["prior_role_id"]
        open_to_all = found.record is not None and found.domain_id is None
        return {"domain_id": self.context.domain_id if open_to_all else found.domain_id}

    def get(self, request: Request, prior_role_id: str) -> Response:
        """List the roles that the role implies directly."""
        prior = self.role("prior_role_id")
        body = _inference(request, prior, implied_roles(prior))
        return Response(
            {"role_inference": body, "links": fragments.self_link(request, f"/roles/{prior.id.hex}/implies")}
        )


class ImpliedRoleView(DomainScopedView):
    """``/v3/roles/{prior}/implies/{implied}``."""

    rules = {
        "GET": "identity:get_implied_role",
        "HEAD": "identity:check_implied_role",
        "PUT": "identity:create_implied_role",
        "DELETE": "identity:delete_implied_role",
    }

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the prior role."""
        prior, implied = self.addressed["prior_role_id"], self.addressed["implied_role_id"]
        seen = self.request.method in {"GET", "HEAD"} and prior.record is not None and prior.domain_id is None
        return {
            "domain_id": self.context.domain_id if seen else prior.domain_id,
            "role_domain_id": implied.domain_id,
            "beyond_domains": not isinstance(implied.record, Role) or counts_beyond_domains(implied.record),
        }

    def get(self, request: Request, prior_role_id: str, implied_role_id: str) -> Response:
        """Show the implication; 404 if it does not exist."""
        self._check()
        return self._shown(request, 200)

    def head(self, request: Request, prior_role_id: str, implied_role_id: str) -> Response:
        """Answer 204 if the implication exists, as Keystone does, otherwise 404."""
        self._check()
        return Response(status=204)

    def put(self, request: Request, prior_role_id: str, implied_role_id: str) -> Response:
        """Create the implication (201): the first role then implies the second role."""
        imply(self.role("prior_role_id"), self.role("implied_role_id"))
        return self._shown(request, 201)

    def delete(self, request: Request, prior_role_id: str, implied_role_id: str) -> Response:
        unimply(self.role("prior_role_id"), self.role("implied_role_id"))
        return Response(status=204)

    def _check(self) -> None:
        prior, implied = self.role("prior_role_id"), self.role("implied_role_id")
        if not implies(prior, implied):
            raise NotFoundError(f"{prior.id.hex} does not imply {implied.id.hex}.")

    def _shown(self, request: Request, status: int) -> Response:
        prior, implied = self.role("prior_role_id"), self.role("implied_role_id")
        body = _inference(request, prior, implied)
        link = fragments.self_link(request, f"/roles/{prior.id.hex}/implies/{implied.id.hex}")
        return Response({"role_inference": body, "links": link}, status=status)


class RoleInferencesView(ServiceView):
    """``/v3/role_inferences``."""

    rules = {"GET": "identity:list_role_inference_rules"}

    def get(self, request: Request) -> Response:
        """List the roles that each role implies directly."""
        found = [_inference(request, prior, implied) for prior, implied in inferences()]
        return Response({"role_inferences": found, "links": list_links(request, "/role_inferences")})


def _linked(request: Request, record: Role) -> fragments.Shape:
    return fragments.named(record) | {"links": fragments.self_link(request, ROLE.address(record))}


def _inference(request: Request, prior: Role, implied: Role | Iterable[Role]) -> fragments.Shape:
    """Return the implied role, or the list of all roles implied directly."""
    one = isinstance(implied, Role)
    return {
        "prior_role": _linked(request, prior),
        "implies": _linked(request, implied)  # type: ignore[arg-type]
        if one
        else [_linked(request, each) for each in implied],  # type: ignore[union-attr]
    }
