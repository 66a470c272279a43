"""``/v3/OS-TRUST/trusts``: trusts, which delegate some of a user's roles to another user, and their roles."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rest_framework.request import Request

from portal.api.frame import Attribute, Call, Checked, Json, Operation, Schema, Values, parts
from portal.api.identity import dialect
from portal.api.identity.dialect import lists
from portal.api.identity.roles.roles import ROLE
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.identity import policy
from provisioning.identity.models import LONG, Project, Role, Trust, User
from provisioning.identity.selectors.credentials import existing_trust, roles_named, roles_of_trust, trusts
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services import trusts as services

TRUSTOR, TRUSTEE = "target.trust.trustor_user_id", "target.trust.trustee_user_id"
"""Names of the attributes in policy rules, as in Keystone."""
_ROLE: Schema = {
    "type": "object",
    "properties": {"id": dialect.KEY.schema, "name": dialect.reference(LONG).schema},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
_ID_OR_NULL = Checked({"type": ["string", "null"], "maxLength": 64}, writer=dialect.KEY.writer)
_LINKS = Checked({"type": "object"})


def _count(least: int) -> Checked:
    return Checked({"type": ["integer", "null"], "minimum": least, "maximum": MAX_INTEGER})


class _Roles(dialect.Attribute):
    """The roles of a trust, as resources."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda row: ROLE.shapes(view, roles_of_trust(row))


class _RolesLinks(dialect.Attribute):
    """The links of the list of a trust's roles."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        ends = {"previous": None, "next": None}
        return lambda row: lists.self_link(view.request, f"{TRUST.address(row)}/roles") | ends


def _create(view: Any, values: Values) -> Trust:
    """Create a trust with the caller as trustor."""
    if read_id(values["trustor_id"]) != view.context.user_id:
        raise ForbiddenError("The authenticated user should match the trustor.")
    project_id = values.get("project_id")
    request = services.TrustRequest(
        trustee=existing(User, values["trustee_id"]),
        impersonation=values["impersonation"],
        project=existing(Project, project_id) if project_id else None,
        roles=roles_named(values.get("roles", [])),
        expires_at=lists.moment(values, "expires_at"),
        remaining_uses=values.get("remaining_uses"),
        allow_redelegation=bool(values.get("allow_redelegation")),
        redelegation_count=values.get("redelegation_count"),
        redelegated_trust_id=values.get("redelegated_from_id"),
        extra=values.get("extra", {}),
    )
    return services.create_trust(view.context, request)


_LISTED = (
    dialect.Attribute("id", dialect.KEY),
    dialect.Attribute("trustor_user_id", dialect.KEY, post=True, required=True, column="trustor_id"),
    dialect.Attribute("trustee_user_id", dialect.KEY, post=True, required=True, column="trustee_id"),
    dialect.Attribute("project_id", _ID_OR_NULL, post=True),
    dialect.Attribute("impersonation", Checked({"type": "boolean"}), post=True, required=True),
    dialect.Attribute(
        "expires_at", Checked({"type": ["string", "null"], "maxLength": 64}, writer=lists.time_of), post=True
    ),
    dialect.Attribute("remaining_uses", _count(1), post=True),
    dialect.Attribute("deleted_at", Checked({"type": "null"}), show=lambda row: None),
    dialect.Attribute("redelegated_trust_id", _ID_OR_NULL, post=True, column="redelegated_from_id"),
    dialect.Attribute("redelegation_count", _count(0), post=True),
)
TRUST = dialect.Resource(
    name="trust",
    path="OS-TRUST/trusts",
    list=Operation(trusts, "identity:list_trusts", "List trusts without their roles."),
    show=Operation(existing_trust, "identity:get_trust"),
    create=Operation(_create, "identity:create_trust", "Create a trust with the caller as trustor (201)."),
    delete=Operation(
        lambda view, trust: services.delete_trust(trust, caller=view.context),
        "identity:delete_trust",
        "Delete the trust and the trusts redelegated from it.",
    ),
    attributes=(
        *_LISTED,
        dialect.Attribute("allow_redelegation", Checked({"type": ["boolean", "null"]}), post=True, shown=False),
        _Roles("roles", Checked({"type": "array", "items": _ROLE, "maxItems": 100}), post=True),
        _RolesLinks("roles_links", _LINKS),
    ),
    extra=LONG,
)


class TrustsView(dialect.ListView):
    """``/v3/OS-TRUST/trusts``."""

    queries = {"GET": lists.parameters({"trustor_user_id": {"type": "string"}, "trustee_user_id": {"type": "string"}})}

    def rule_of(self, method: str) -> str | None:
        """Return the rule: trustors and trustees may list their own trusts. As in Keystone, the filter by trustor
        decides if both are set.
        """
        if method == "POST" or not self._query:
            return super().rule_of(method)
        if "trustor_user_id" in self._query:
            return "identity:list_trusts_for_trustor"
        return "identity:list_trusts_for_trustee"

    @property
    def _query(self) -> dict[str, str]:
        query = self.request.query_params
        return {name: query[name] for name in ("trustor_user_id", "trustee_user_id") if query.get(name)}

    def policy_target(self) -> dict[str, object]:
        """Return trustor and trustee in the query or body; an invalid body is rejected after the policy check."""
        if self.request.method != "POST":
            return {TRUSTOR: self._query.get("trustor_user_id"), TRUSTEE: self._query.get("trustee_user_id")}
        values = self.claimed("trust") if self.claimed() is not None else {}
        return {TRUSTOR: values.get("trustor_user_id", self.context.user_id) if isinstance(values, dict) else None}

    def selected(self) -> Sequence[Attribute]:
        """Return the attributes without the roles."""
        return _LISTED

    def page(self) -> tuple[Sequence[Trust], Json]:
        """Return the trusts of the trustor or trustee in the query. Raises ForbiddenError."""
        services.refuse_application_credentials(self.context)
        conditions = self._query
        found = self.resource.list.call(
            trustor_id=conditions.get("trustor_user_id"), trustee_id=conditions.get("trustee_user_id")
        )
        return found, {"links": lists.list_links(self.request, self.address)}


class OfTrustView(dialect.ResourceView):
    """Base of the views of one trust; only its trustor and trustee can find it."""

    resource = TRUST

    @functools.cached_property
    def found(self) -> Trust:
        """The trust. Raises NotFoundError."""
        return existing_trust(self.ids["trust_id"], used_up=self.request.method == "DELETE")

    def check_rule(self, request: Request) -> None:
        """Find the trust, check whether the caller may see it, and then check whether the policy allows this request.

        A used-up trust can only be deleted, which revokes the tokens obtained with it.
        """
        if not policy.allows(self.context, "identity:get_trust", self.policy_target()):
            raise NotFoundError(f"Could not find trust: {self.ids['trust_id'][:64]}.")
        super().check_rule(request)
        services.refuse_application_credentials(self.context)

    def policy_target(self) -> dict[str, object]:
        return {TRUSTOR: self.record.trustor_id, TRUSTEE: self.record.trustee_id}


class TrustView(OfTrustView, dialect.DetailView):
    """``/v3/OS-TRUST/trusts/{id}``."""


def _role(trust: Trust, role_id: str) -> Role:
    """Return a role that the trust delegates. Raises NotFoundError for any other role."""
    requested = read_id(role_id)
    role = next((role for role in roles_of_trust(trust) if role.id == requested), None)
    if role is None:
        raise NotFoundError(f"Could not find role: {role_id[:64]}.")
    return role


def _roles(view: OfTrustView, trust: Trust) -> Json:
    shape = TRUST.shape(view, trust)
    return {"roles": shape["roles"], "links": shape["roles_links"]}


ROUTES = dialect.routes(
    TRUST, dialect=replace(dialect.IDENTITY, lists=TrustsView, details=TrustView)
) | dialect.patterns(
    parts(
        OfTrustView,
        "OS-TRUST/trusts/{trust_id}/roles",
        {
            "GET": Call(
                lambda trust: trust,
                "identity:list_roles_for_trust",
                "List the roles that the trust delegates.",
                shape=_roles,
            ),
            "GET /{role_id}": Call(
                _role,
                "identity:get_role_for_trust",
                "Show a role that the trust delegates; 404 for any other role.",
                name="role",
                shape=ROLE.shape,
            ),
        },
    )
)
