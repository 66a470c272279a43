"""``/v3/roles/{prior}/implies`` and ``/v3/role_inferences``: implied roles."""

from collections.abc import Iterable
from typing import Any

from rest_framework.request import Request

from portal.api.common.views import ServiceView
from portal.api.frame.parts import Call, parts
from portal.api.identity.dialect import bodies, patterns
from portal.api.identity.roles.roles import ROLE, DomainScopedView
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Role
from provisioning.identity.selectors.role_lookups import counts_beyond_domains, implied_roles, implies, inferences
from provisioning.identity.services.roles import imply, unimply


class ImpliedRolesView(DomainScopedView):
    """``/v3/roles/{prior}/implies``: the roles of the path are the arguments of the services."""

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the prior role; the implications of a global role can be read from every domain."""
        prior, implied = self.addressed["prior_role_id"], self.addressed.get("implied_role_id")
        seen = self.request.method in {"GET", "HEAD"} and prior.record is not None and prior.domain_id is None
        target: dict[str, object] = {"domain_id": self.context.domain_id if seen else prior.domain_id}
        if implied is not None:
            beyond = not isinstance(implied.record, Role) or counts_beyond_domains(implied.record)
            target |= {"role_domain_id": implied.domain_id, "beyond_domains": beyond}
        return target

    def arguments(self, **ids: str) -> tuple[Role, ...]:
        return tuple(map(self.role, ids))


def _check(prior: Role, implied: Role) -> None:
    """Raise NotFoundError if the first role does not imply the second one."""
    if not implies(prior, implied):
        raise NotFoundError(f"{prior.id.hex} does not imply {implied.id.hex}.")


def _shown(view: Any, made: Any) -> bodies.Shape:
    """Return the implication of the path, or all of the prior role if ``made`` are the implied roles."""
    prior, *implied = view.arguments(**view.kwargs)
    links = bodies.self_link(view.request, bodies.own_path(view.request))
    return {"role_inference": _inference(view.request, prior, implied[0] if implied else made), "links": links}


def _inferences(view: Any, found: Iterable[tuple[Role, list[Role]]]) -> bodies.Shape:
    shapes = [_inference(view.request, prior, implied) for prior, implied in found]
    return {"role_inferences": shapes, "links": bodies.list_links(view.request, "/role_inferences")}


def _linked(request: Request, record: Role) -> bodies.Shape:
    return bodies.named(record) | {"links": bodies.self_link(request, ROLE.address(record))}


def _inference(request: Request, prior: Role, implied: Role | Iterable[Role]) -> bodies.Shape:
    """Return the implied role, or the list of all roles implied directly."""
    one = isinstance(implied, Role)
    return {
        "prior_role": _linked(request, prior),
        "implies": _linked(request, implied)  # type: ignore[arg-type]
        if one
        else [_linked(request, each) for each in implied],  # type: ignore[union-attr]
    }


_IMPLIED = "roles/{prior_role_id}/implies"
_ONE = f"{_IMPLIED}/{{implied_role_id}}"
ROUTES = patterns(
    parts(
        ImpliedRolesView,
        "",
        {
            f"GET {_IMPLIED}": Call(
                implied_roles,
                "identity:list_implied_roles",
                "List the roles that the role implies directly.",
                shape=_shown,
            ),
            f"GET {_ONE}": Call(
                _check,
                "identity:get_implied_role",
                "Show the implication; 404 if it does not exist.",
                shape=_shown,
            ),
            f"HEAD {_ONE}": Call(
                _check,
                "identity:check_implied_role",
                "Answer 204 if the implication exists, as Keystone does, otherwise 404.",
            ),
            f"PUT {_ONE}": Call(
                imply,
                "identity:create_implied_role",
                "Create the implication (201): the first role then implies the second role.",
                shape=_shown,
                status=201,
            ),
            f"DELETE {_ONE}": Call(unimply, "identity:delete_implied_role"),
        },
    )
    | parts(
        ServiceView,
        "role_inferences",
        {
            "GET": Call(
                lambda context: inferences(),
                "identity:list_role_inference_rules",
                "List the roles that each role implies directly.",
                shape=_inferences,
            )
        },
    )
)
