"""``/v3/credentials``: secrets stored for users."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity import fragments
from portal.api.identity.credentials import schemas
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy
from provisioning.identity.models import Credential, Project, User
from provisioning.identity.selectors.credentials import credentials_for, existing_credential
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.services.credentials import (
    Changes,
    blob_of,
    create_credential,
    delete_credential,
    project_id_of,
    update_credential,
)


class CredentialsView(ServiceView):
    """``/v3/credentials``."""

    rules = {"GET": "identity:list_credentials", "POST": "identity:create_credential"}
    schemas: ClassVar[Schemas] = {"POST": schemas.CREDENTIAL}

    def policy_target(self) -> dict[str, object]:
        """The caller's id; a different owner in the body is checked later."""
        return {"user_id": self.context.user_id}

    def get(self, request: Request) -> Response:
        """List the caller's credentials; operators see the credentials of all users."""
        query = request.query_params
        everybody = self.allows("novella:list_credentials:all_users")
        found = credentials_for(self.context, user_id=query.get("user_id"), kind=query.get("type"), everybody=everybody)
        items = (shape(request, record) for record in found)
        return _secret(fragments.listing(request, "credentials", items, "/credentials"))

    def post(self, request: Request) -> Response:
        """Create a credential for the caller, or as an operator for any user."""
        body = self.checked_body()["credential"]
        user = _user(self, body.get("user_id"))
        project = _project(body.get("project_id"))
        record = create_credential(user, kind=body["type"], blob=body["blob"], project=project, caller=self.context)
        return _secret({"credential": shape(request, record)}, 201)


class CredentialView(ServiceView):
    """``/v3/credentials/{id}``. A credential of another user is 404, except for operators."""

    rules = {
        "GET": "identity:get_credential",
        "PATCH": "identity:update_credential",
        "DELETE": "identity:delete_credential",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.CREDENTIAL_CHANGE}
    _record: Credential

    def policy_target(self) -> dict[str, object]:
        self._record = existing_credential(self.context, self.kwargs["credential_id"], everybody=True)
        return {"user_id": self._record.user_id}

    def check_rule(self, request: Request) -> None:
        """Check the policy; answer 404 instead of 403."""
        try:
            super().check_rule(request)
        except ForbiddenError as error:
            raise NotFoundError(f"Could not find credential: {self.kwargs['credential_id'][:64]}.") from error

    def get(self, request: Request, credential_id: str) -> Response:
        """Show a credential with its blob."""
        return _secret({"credential": shape(request, self._record)})

    def patch(self, request: Request, credential_id: str) -> Response:
        """Update the specified fields."""
        body = self.checked_body()["credential"]
        changes: Changes = {}
        if "user_id" in body:
            changes["user"] = _user(self, body["user_id"])
        if "type" in body:
            changes["kind"] = body["type"]
        if "blob" in body:
            changes["blob"] = body["blob"]
        if "project_id" in body:
            changes["project"] = _project(body["project_id"])
        record = update_credential(self._record, caller=self.context, **changes)
        return _secret({"credential": shape(request, record)})

    def delete(self, request: Request, credential_id: str) -> Response:
        delete_credential(self._record, caller=self.context)
        return Response(status=204)


def shape(request: Request, record: Credential) -> dict[str, Any]:
    return {
        "id": record.id,
        "type": record.type,
        "blob": blob_of(record),
        "user_id": record.user_id.hex,
        "project_id": project_id_of(record),
        "links": fragments.self_link(request, f"/credentials/{record.id}"),
    }


def _project(project_id: str | None) -> Project | str | None:
    """Return the project. If it does not exist, return the id unchanged, because Keystone accepts it."""
    return None if project_id is None else by_id(Project, project_id) or project_id


def _user(view: ServiceView, user_id: str | None) -> User:
    """Return the owner of the credential: the caller, or another user if the policy allows it."""
    own = view.context.user_id
    wanted = user_id if user_id is not None else own.hex if own is not None else ""
    policy.enforce(view.context, "identity:create_credential", {"user_id": wanted})
    return existing(User, wanted)


def _secret(body: dict[str, Any], status: int = 200) -> Response:
    answer = Response(body, status=status)
    answer["Cache-Control"] = "no-store"
    return answer
