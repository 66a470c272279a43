"""``/v3/roles``: roles, which policy rules check; implied roles: ``/v3/roles/{prior}/implies`` and
``/v3/role_inferences``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from rest_framework.request import Request

from portal.api.frame import Call, Json, Operation, ServiceView, Values, parts
from portal.api.identity import dialect
from portal.api.identity.dialect import lists
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.identity import policy
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors import lookups
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.services.roles import create_role, delete_role, imply, is_immutable, unimply, update_role


@dataclass(frozen=True, slots=True)
class AddressedRecord:
    """A record named in the path: its model, the id as text, and the record if it exists."""

    model: type[Domain | Group | Project | Role | User]
    text: str
    record: Domain | Group | Project | Role | User | None

    @property
    def kind(self) -> str:
        return self.model.__name__.lower()

    @property
    def domain_id(self) -> str | None:
        """The domain of the record, or the domain itself; None without a domain or a record."""
        if self.record is None:
            return None
        return self.record.id if isinstance(self.record, Domain) else self.record.domain_id

    def missing(self) -> NotFoundError:
        return NotFoundError(f"Could not find {self.kind}: {self.text[:64]}.")


class DomainScopedView(ServiceView):
    """Looks up the records in the path before the policy check, and answers 404 if a record is missing.

    Callers without permission get 403 whether or not the record exists. For the administrator and manager of a domain,
    records of other domains do not exist.
    """

    models: ClassVar[dict[str, type[Domain | Group | Project | Role | User]]] = {
        "domain_id": Domain,
        "group_id": Group,
        "project_id": Project,
        "role_id": Role,
        "prior_role_id": Role,
        "implied_role_id": Role,
        "user_id": User,
    }
    addressed: dict[str, AddressedRecord]

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids in the path by parameter."""
        return dict(self.kwargs)

    def check_rule(self, request: Request) -> None:
        """Look up the records, check the policy, and then raise NotFoundError for missing records."""
        self.addressed = {
            name: AddressedRecord(self.models[name], text, by_id(self.models[name], text))
            for name, text in self.ids.items()
        }
        try:
            super().check_rule(request)
        except ForbiddenError:
            self._hide()
            raise
        for found in self.addressed.values():
            if found.record is None:
                raise found.missing()

    def _hide(self) -> None:
        own = self.context.domain_id
        within = (policy.allows(self.context, rule, {"domain_id": own}) for rule in ("domain_admin", "domain_manager"))
        if own is None or not any(within):
            return
        for found in self.addressed.values():
            if found.record is None or found.domain_id not in ({own, None} if found.kind == "role" else {own}):
                raise found.missing()

    def role(self, name: str = "role_id") -> Role:
        record = self.addressed[name].record
        assert isinstance(record, Role)  # noqa: S101 - check_rule has checked it
        return record


def _create(view: ServiceView, values: Values) -> Role:
    domain_id = values.pop("domain_id", None)
    domain = by_id(Domain, domain_id) if domain_id is not None else None
    if domain_id is not None and domain is None:
        raise InvalidInputError(f"Could not find domain: {domain_id[:64]}.", field="domain_id")
    return create_role(values.pop("name"), domain=domain, **values)


def _options(role: Role) -> Json:
    """Return the options; built-in roles are shown as immutable, whatever their stored options."""
    return {**role.options, "immutable": True} if is_immutable(role) else role.options


ROLE = dialect.Resource(
    name="role",
    list=Operation(
        lookups.roles, "identity:list_roles", "List the global roles, or the roles of the domain in the query."
    ),
    show=Operation(partial(existing, Role), "identity:get_role"),
    create=Operation(_create, "identity:create_role", "Create a role (201)."),
    update=Operation(
        lambda view, role, values: update_role(role, **values),
        "identity:update_role",
        "Update a role; its domain cannot be changed.",
    ),
    delete=Operation(
        lambda view, role: delete_role(role), "identity:delete_role", "Delete a role with its assignments."
    ),
    attributes=(
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute("name", dialect.LONG_NAME, post=True, put=True, required=True),
        dialect.Attribute("domain_id", dialect.KEY_OR_NULL, post=True, fixed=InvalidInputError),
        dialect.Attribute("description", dialect.TEXT, post=True, put=True),
        dialect.Attribute("options", dialect.IMMUTABLE, post=True, put=True, show=_options),
    ),
    lists=lists.InMemory(("name",)),
    extra=64,
)
_OF_DOMAIN = {
    "identity:list_roles": "identity:list_domain_roles",
    "identity:get_role": "identity:get_domain_role",
    "identity:create_role": "identity:create_domain_role",
    "identity:update_role": "identity:update_domain_role",
    "identity:delete_role": "identity:delete_domain_role",
}
"""Rule → the rule for roles of a domain."""


class RolesView(dialect.ListView):
    """``/v3/roles``."""

    def rule_of(self, method: str) -> str | None:
        rule = super().rule_of(method)
        return _OF_DOMAIN.get(rule or "") if self._asked_domain() is not None else rule

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the new role or the list; global roles can be read from every domain."""
        domain_id = self._asked_domain()
        if domain_id is None and self.request.method != "POST":
            return {"domain_id": self.context.domain_id}
        return {"domain_id": domain_id}

    def _asked_domain(self) -> Any:
        if self.request.method != "POST":
            return self.request.query_params.get("domain_id")
        return self.claimed("role", "domain_id")

    def rows(self) -> Sequence[Role]:
        found: Sequence[Role] = self.resource.list.call(domain_id=self.request.query_params.get("domain_id"))
        return found


class RoleView(DomainScopedView, dialect.DetailView):
    """``/v3/roles/{id}``."""

    ids = dialect.DetailView.ids

    def rule_of(self, method: str) -> str | None:
        rule = super().rule_of(method)
        return _OF_DOMAIN.get(rule or "") if self.addressed["role_id"].domain_id is not None else rule

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the role; global roles can be read from every domain."""
        found = self.addressed["role_id"]
        if found.record is not None and found.domain_id is None and self.request.method in {"GET", "HEAD"}:
            name = found.record.name if isinstance(found.record, Role) else None
            return {"domain_id": self.context.domain_id, "target.role.name": name}
        return {"domain_id": found.domain_id}

    @property
    def record(self) -> Role:
        """The role, which the policy check has looked up."""
        return self.role()


_ROLES = dialect.routes(ROLE, dialect=replace(dialect.IDENTITY, lists=RolesView, details=RoleView))


class ImpliedRolesView(DomainScopedView):
    """``/v3/roles/{prior}/implies``: the roles of the path are the arguments of the services."""

    def policy_target(self) -> dict[str, object]:
        """Return the domain of the prior role; the implications of a global role can be read from every domain."""
        prior, implied = self.addressed["prior_role_id"], self.addressed.get("implied_role_id")
        seen = self.request.method in {"GET", "HEAD"} and prior.record is not None and prior.domain_id is None
        target: dict[str, object] = {"domain_id": self.context.domain_id if seen else prior.domain_id}
        if implied is not None:
            beyond = not isinstance(implied.record, Role) or lookups.counts_beyond_domains(implied.record)
            target |= {"role_domain_id": implied.domain_id, "beyond_domains": beyond}
        return target

    def arguments(self, **ids: str) -> tuple[Role, ...]:
        return tuple(map(self.role, ids))


def _check_implication(prior: Role, implied: Role) -> None:
    """Raise NotFoundError if the first role does not imply the second one."""
    if not lookups.implies(prior, implied):
        raise NotFoundError(f"{prior.id.hex} does not imply {implied.id.hex}.")


def _implied_shown(view: Any, made: Any) -> Json:
    """Return the implication of the path, or all of the prior role if ``made`` are the implied roles."""
    prior, *implied = view.arguments(**view.kwargs)
    links = lists.self_link(view.request, lists.own_path(view.request))
    return {"role_inference": _inference(view.request, prior, implied[0] if implied else made), "links": links}


def _inferences(view: Any, found: Iterable[tuple[Role, list[Role]]]) -> Json:
    shapes = [_inference(view.request, prior, implied) for prior, implied in found]
    return {"role_inferences": shapes, "links": lists.list_links(view.request, "/role_inferences")}


def _linked(request: Request, record: Role) -> Json:
    return lists.named(record) | {"links": lists.self_link(request, ROLE.address(record))}


def _inference(request: Request, prior: Role, implied: Role | Iterable[Role]) -> Json:
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
_IMPLIED_ROLES = dialect.patterns(
    parts(
        ImpliedRolesView,
        "",
        {
            f"GET {_IMPLIED}": Call(
                lookups.implied_roles,
                "identity:list_implied_roles",
                "List the roles that the role implies directly.",
                shape=_implied_shown,
            ),
            f"GET {_ONE}": Call(
                _check_implication,
                "identity:get_implied_role",
                "Show the implication; 404 if it does not exist.",
                shape=_implied_shown,
            ),
            f"HEAD {_ONE}": Call(
                _check_implication,
                "identity:check_implied_role",
                "Answer 204 if the implication exists, as Keystone does, otherwise 404.",
            ),
            f"PUT {_ONE}": Call(
                imply,
                "identity:create_implied_role",
                "Create the implication (201): the first role then implies the second role.",
                shape=_implied_shown,
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
                lambda context: lookups.inferences(),
                "identity:list_role_inference_rules",
                "List the roles that each role implies directly.",
                shape=_inferences,
            )
        },
    )
)


ROUTES = _ROLES | _IMPLIED_ROLES
