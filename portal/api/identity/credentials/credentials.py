"""``/v3/credentials``: secrets stored for users; base of the views of all subresources of a user."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rest_framework.request import Request

from portal.api.frame import Checked, Operation, ServiceView, Values
from portal.api.identity import dialect
from portal.api.identity.directory.users import USER
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy
from provisioning.identity.models import LONG, Credential, Project, User
from provisioning.identity.selectors.credentials import credentials_for, existing_credential
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.services import credentials
from provisioning.identity.services.application_credentials import refuse_trusts


class OfUserView(ServiceView):
    """A subresource of the user in the path."""

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids in the path by parameter."""
        return dict(self.kwargs)

    @functools.cached_property
    def user(self) -> User:
        """The user. Raises NotFoundError."""
        return existing(User, self.ids["user_id"])

    def policy_target(self) -> dict[str, object]:
        return {"user_id": self.ids["user_id"]}


class NotByTrustView(OfUserView, dialect.ResourceView):
    """A subresource of a user that tokens of trusts can neither read nor change."""

    ids = dialect.ResourceView.ids

    @property
    def parents(self) -> tuple[Any, ...]:
        return (self.user,)

    def check_rule(self, request: Request) -> None:
        """Check the policy and refuse tokens of trusts."""
        super().check_rule(request)
        refuse_trusts(self.context)


class NotByTrustListView(NotByTrustView, dialect.ListView):
    """``/v3/users/{id}/{resources}``."""

    @property
    def address(self) -> str:
        """The path of the list after ``/v3``."""
        return f"{USER.address(self.user)}/{self.resource.path}"


class NotByTrustDetailView(NotByTrustView, dialect.DetailView):
    """``/v3/users/{id}/{resources}/{id}``."""


NOT_BY_TRUST = replace(dialect.IDENTITY, lists=NotByTrustListView, details=NotByTrustDetailView)


def _owner(view: ServiceView, user_id: Any) -> Any:
    """Return the id of a credential's owner in a body, by default the caller's. Raises ForbiddenError."""
    own = view.context.user_id
    owner_id = user_id if user_id is not None else own.hex if own is not None else ""
    policy.enforce(view.context, "identity:create_credential", {"user_id": owner_id})
    return owner_id


def _with_project(values: Values) -> Values:
    """Look up the project. If it does not exist, keep the id, because Keystone accepts it."""
    if "project_id" in values:
        key = values.pop("project_id")
        values["project"] = None if key is None else by_id(Project, key) or key
    return values


def _create(view: ServiceView, values: Values) -> Credential:
    user = existing(User, _owner(view, values.pop("user_id", None)))
    return credentials.create_credential(user, **_with_project(values), caller=view.context)


def _update(view: ServiceView, record: Credential, values: Values) -> Credential:
    if "user_id" in values:
        values["user"] = existing(User, _owner(view, values.pop("user_id")))
    return credentials.update_credential(record, caller=view.context, **_with_project(values))


CREDENTIAL = dialect.Resource(
    name="credential",
    list=Operation(
        credentials_for,
        "identity:list_credentials",
        "List the caller's credentials; operators see the credentials of all users.",
    ),
    show=Operation(
        partial(existing_credential, everybody=True), "identity:get_credential", "Show a credential with its blob."
    ),
    create=Operation(
        _create, "identity:create_credential", "Create a credential for the caller, or as an operator for any user."
    ),
    update=Operation(_update, "identity:update_credential", "Update the specified fields."),
    delete=Operation(
        lambda view, record: credentials.delete_credential(record, caller=view.context), "identity:delete_credential"
    ),
    attributes=(
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute(
            "type",
            dialect.reference(LONG),
            post=True,
            put=True,
            required=True,
            column="kind",
            show=lambda row: row.type,
        ),
        dialect.Attribute(
            "blob",
            Checked({"type": "string", "minLength": 1, "maxLength": 65_535}),
            post=True,
            put=True,
            required=True,
            show=credentials.blob_of,
        ),
        dialect.Attribute("user_id", dialect.KEY, post=True, put=True),
        dialect.Attribute("project_id", dialect.KEY_OR_NULL, post=True, put=True, show=credentials.project_id_of),
    ),
    least=1,
)


class CredentialsView(dialect.ListView):
    """``/v3/credentials``."""

    def policy_target(self) -> dict[str, object]:
        return {"user_id": self.context.user_id}

    def check_rule(self, request: Request) -> None:
        """Check the policy, also for another owner in the body."""
        super().check_rule(request)
        if request.method == "POST" and isinstance(user_id := self.claimed("credential", "user_id"), str):
            _owner(self, user_id)

    def rows(self) -> Sequence[Credential]:
        query, everybody = self.request.query_params, self.allows("novella:list_credentials:all_users")
        conditions = {"user_id": query.get("user_id"), "kind": query.get("type"), "everybody": everybody}
        found: Sequence[Credential] = self.resource.list.call(self.context, **conditions)
        return found


class CredentialView(dialect.DetailView):
    """``/v3/credentials/{id}``. A credential of another user is 404, except for operators."""

    @property
    def parents(self) -> tuple[Any, ...]:
        return (self.context,)

    def policy_target(self) -> dict[str, object]:
        return {"user_id": self.record.user_id}

    def check_rule(self, request: Request) -> None:
        """Check the policy, also for a new owner; answer 404 instead of 403 for another user's credential."""
        try:
            super().check_rule(request)
        except ForbiddenError as error:
            raise NotFoundError(f"Could not find credential: {self.ids['credential_id'][:64]}.") from error
        if request.method == "PATCH" and isinstance(user_id := self.claimed("credential", "user_id"), str):
            _owner(self, user_id)


ROUTES = dialect.routes(CREDENTIAL, dialect=replace(dialect.IDENTITY, lists=CredentialsView, details=CredentialView))
