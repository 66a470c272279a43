"""``/v3/users/{id}/application_credentials``: credentials for programs, with a subset of the user's roles."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity import fragments
from portal.api.identity.credentials import schemas
from portal.api.identity.fields import moment
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.ids import read_id
from provisioning.identity.models import AccessRule, ApplicationCredential, Project, Role, User
from provisioning.identity.selectors.application_credentials import (
    application_credentials_of,
    existing_access_rule,
    existing_application_credential,
    role_by,
)
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.application_credentials import (
    RequestPattern,
    create_application_credential,
    delete_application_credential,
    refuse_trusts,
)


class OfUserView(ServiceView):
    """A subresource of the user in the path."""

    @property
    def user(self) -> User:
        """The user. Raises NotFoundError."""
        return existing(User, self.kwargs["user_id"])

    def policy_target(self) -> dict[str, object]:
        return {"user_id": self.kwargs["user_id"]}


class NotByTrustView(OfUserView):
    """A subresource of a user that tokens of trusts can neither read nor change."""

    def check_rule(self, request: Request) -> None:
        """Check the policy and refuse tokens of trusts."""
        super().check_rule(request)
        refuse_trusts(self.context)


class ApplicationCredentialsView(NotByTrustView):
    """``/v3/users/{id}/application_credentials``."""

    rules = {"GET": "identity:list_application_credentials", "POST": "identity:create_application_credential"}
    schemas: ClassVar[Schemas] = {"POST": schemas.APPLICATION_CREDENTIAL}

    def get(self, request: Request, user_id: str) -> Response:
        """List the application credentials without their secrets."""
        user = self.user
        found = application_credentials_of(user, name=request.query_params.get("name"))
        path = f"/users/{user.id.hex}/application_credentials"
        return Response(
            fragments.listing(request, "application_credentials", (shape(request, record) for record in found), path)
        )

    def post(self, request: Request, user_id: str) -> Response:
        """Create an application credential for the token's project; only this response contains the secret."""
        body = self.checked_body()["application_credential"]
        user = self.user
        record, secret = create_application_credential(
            user,
            self._project(body.get("project_id")),
            body["name"],
            roles=[_role(role) for role in body.get("roles") or []] or None,
            secret=body.get("secret"),
            description=body.get("description") or "",
            expires_at=moment(body, "expires_at"),
            unrestricted=bool(body.get("unrestricted")),
            access_rules=[_access_rule(user, rule) for rule in body.get("access_rules") or []],
            caller=self.context,
        )
        answer = Response({"application_credential": shape(request, record) | {"secret": secret}}, status=201)
        answer["Cache-Control"] = "no-store"
        return answer

    def _project(self, said: str | None) -> Project:
        if self.context.project_id is None:
            raise ForbiddenError("An application credential is for the token's project. Ask with a token for one.")
        if said is not None and read_id(said) != self.context.project_id:
            raise InvalidInputError("project_id must be the token's project.", field="project_id")
        return existing(Project, self.context.project_id.hex)


class ApplicationCredentialView(NotByTrustView):
    """``/v3/users/{id}/application_credentials/{id}``."""

    rules = {"GET": "identity:get_application_credential", "DELETE": "identity:delete_application_credential"}

    def get(self, request: Request, user_id: str, application_credential_id: str) -> Response:
        """Show an application credential without its secret."""
        record = existing_application_credential(self.user, application_credential_id)
        return Response({"application_credential": shape(request, record)})

    def delete(self, request: Request, user_id: str, application_credential_id: str) -> Response:
        """Delete an application credential; its tokens are revoked immediately."""
        record = existing_application_credential(self.user, application_credential_id)
        delete_application_credential(record, caller=self.context)
        return Response(status=204)


def shape(request: Request, record: ApplicationCredential) -> dict[str, Any]:
    user_id = record.user_id.hex
    return {
        "id": record.id.hex,
        "name": record.name,
        "description": record.description,
        "project_id": record.project_id.hex,
        "user_id": user_id,
        "roles": [{"id": role.id.hex, "name": role.name, "domain_id": None} for role in record.roles.all()],
        "expires_at": fragments.time_without_zone(record.expires_at) if record.expires_at else None,
        "unrestricted": record.unrestricted,
        "access_rules": [access_rule(rule) for rule in record.access_rules.all()],
        "links": fragments.self_link(request, f"/users/{user_id}/application_credentials/{record.id.hex}"),
    }


def access_rule(record: AccessRule) -> dict[str, Any]:
    return {"id": record.id.hex, "service": record.service, "method": record.method, "path": record.path}


def _role(said: dict[str, Any]) -> Role:
    """Return the role with this id or name. An unknown role raises the same error as a role that the caller does not
    have.
    """
    if "id" not in said and "name" not in said:
        raise InvalidInputError("Each of the roles must have an id or a name.", field="roles")
    found = role_by(role_id=said.get("id"), name=said.get("name"))
    if found is None:
        shown = str(said.get("id") or said.get("name"))[:64]
        raise InvalidInputError(f"You do not have the role {shown} on the project.", field="roles")
    return found


def _access_rule(user: User, said: dict[str, Any]) -> AccessRule | RequestPattern:
    if "id" in said:
        return existing_access_rule(user, said["id"])
    for name in ("service", "method", "path"):
        if name not in said:
            sentence = f"An access rule needs an id, or a service, a method and a path: {name} is missing."
            raise InvalidInputError(sentence, field=name)
    return RequestPattern(said["service"], said["method"], said["path"])
