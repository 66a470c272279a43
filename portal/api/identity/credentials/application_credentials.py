"""``/v3/users/{id}/application_credentials``: credentials for programs, with a subset of the user's roles, and
``access_rules``: the requests that they may send.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from portal.api.frame import Checked, Json, Operation, Schema, Values
from portal.api.identity.credentials.credentials import NOT_BY_TRUST, NotByTrustListView
from portal.api.identity.dialect import KEY, TEXT, Attribute, Resource, lists, reference, routes
from portal.api.identity.directory.users import USER
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import LONG, AccessRule, ApplicationCredential, Project, Role, User
from provisioning.identity.selectors import credentials as selectors
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services import application_credentials as services

_SECRET = Checked({"type": ["string", "null"], "minLength": 1, "maxLength": 1024})
_SWITCH = Checked({"type": ["boolean", "null"]})
_TIME = Checked({"type": ["string", "null"], "maxLength": 64}, writer=lists.time_without_zone)


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [], "additionalProperties": False}


def _some(items: Schema) -> Checked:
    return Checked({"type": ["array", "null"], "items": items, "maxItems": 100})


_ID, _NAME = KEY.schema, reference(LONG).schema
_ROLES = _some(_object(id=_ID, name=_NAME, domain=_object(id=_ID, name=_NAME)))
_RULES = (
    Attribute("id", KEY),
    Attribute("service", reference()),
    Attribute("method", Checked({"enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]})),
    Attribute("path", reference(128)),
)


def _create(view: Any, values: Values) -> Json:
    """Create an application credential; only this response contains the secret."""
    record, secret = services.create_application_credential(
        view.user,
        _project(view, values.get("project_id")),
        values["name"],
        roles=[_role(role) for role in values.get("roles") or []] or None,
        secret=values.get("secret"),
        description=values.get("description", ""),
        expires_at=lists.moment(values, "expires_at"),
        unrestricted=bool(values.get("unrestricted")),
        access_rules=[_access_rule(view.user, rule) for rule in values.get("access_rules") or []],
        caller=view.context,
    )
    shape = APPLICATION_CREDENTIAL.shape(view, record)
    return {"application_credential": shape | {"secret": secret}}


def _project(view: Any, project_id: str | None) -> Project:
    own = view.context.project_id
    if own is None:
        raise ForbiddenError(
            "An application credential belongs to the token's project. Use a token with a project scope."
        )
    if project_id is not None and read_id(project_id) != own:
        raise InvalidInputError("project_id must be the token's project.", field="project_id")
    return existing(Project, own.hex)


def _role(reference: Json) -> Role:
    """Return the role with this id or name. An unknown role raises the same error as a role that the caller does not
    have.
    """
    if "id" not in reference and "name" not in reference:
        raise InvalidInputError("Each of the roles must have an id or a name.", field="roles")
    found = selectors.role_by(role_id=reference.get("id"), name=reference.get("name"))
    if found is None:
        shown = str(reference.get("id") or reference.get("name"))[:64]
        raise InvalidInputError(f"You do not have the role {shown} on the project.", field="roles")
    return found


def _access_rule(user: User, rule: Json) -> AccessRule | services.RequestPattern:
    if "id" in rule:
        return selectors.existing_access_rule(user, rule["id"])
    for name in ("service", "method", "path"):
        if name not in rule:
            sentence = f"An access rule needs an id, or a service, a method and a path: {name} is missing."
            raise InvalidInputError(sentence, field=name)
    return services.RequestPattern(rule["service"], rule["method"], rule["path"])


def _shown_roles(record: ApplicationCredential) -> list[Json]:
    return [{"id": role.id.hex, "name": role.name, "domain_id": None} for role in record.roles.all()]


def _shown_rules(record: ApplicationCredential) -> list[Json]:
    return [{each.name: each.value_of(rule) for each in _RULES} for rule in record.access_rules.all()]


APPLICATION_CREDENTIAL = Resource(
    name="application_credential",
    below=USER,
    list=Operation(
        selectors.application_credentials_of,
        "identity:list_application_credentials",
        "List the application credentials without their secrets.",
    ),
    show=Operation(
        selectors.existing_application_credential,
        "identity:get_application_credential",
        "Show an application credential without its secret.",
    ),
    create=Operation(
        _create,
        "identity:create_application_credential",
        "Create an application credential for the token's project; only this response contains the secret.",
    ),
    delete=Operation(
        lambda view, record: services.delete_application_credential(record, caller=view.context),
        "identity:delete_application_credential",
        "Delete an application credential; its tokens are revoked immediately.",
    ),
    attributes=(
        Attribute("id", KEY),
        Attribute("name", reference(LONG), post=True, required=True),
        Attribute("description", TEXT, post=True),
        Attribute("project_id", KEY, post=True),
        Attribute("user_id", KEY),
        Attribute("roles", _ROLES, post=True, show=_shown_roles),
        Attribute("expires_at", _TIME, post=True),
        Attribute("unrestricted", _SWITCH, post=True),
        Attribute("secret", _SECRET, post=True, shown=False),
        Attribute(
            "access_rules",
            _some(_object(**{each.name: each.kind.schema for each in _RULES})),
            post=True,
            show=_shown_rules,
        ),
    ),
)
ACCESS_RULE = Resource(
    name="access_rule",
    below=USER,
    list=Operation(
        selectors.access_rules_of,
        "identity:list_access_rules",
        "List the access rules; they are created with application credentials.",
    ),
    show=Operation(selectors.existing_access_rule, "identity:get_access_rule"),
    delete=Operation(
        lambda view, rule: services.delete_access_rule(rule, caller=view.context),
        "identity:delete_access_rule",
        "Delete a rule; 403 while an application credential uses it.",
    ),
    attributes=_RULES,
)


class ApplicationCredentialsView(NotByTrustListView):
    """``/v3/users/{id}/application_credentials``, which can be filtered by name."""

    def rows(self) -> Sequence[ApplicationCredential]:
        name = self.request.query_params.get("name")
        found: Sequence[ApplicationCredential] = self.resource.list.call(self.user, name=name)
        return found


ROUTES = routes(APPLICATION_CREDENTIAL, dialect=replace(NOT_BY_TRUST, lists=ApplicationCredentialsView)) | routes(
    ACCESS_RULE, dialect=NOT_BY_TRUST
)
