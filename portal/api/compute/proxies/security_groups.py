"""Security groups in the Compute API up to 2.35."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.proxies.table import limited
from portal.api.compute.schemas import Schema, body, last
from portal.api.compute.servers.security_group_shapes import REMOTE, security_group
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.ids import NOBODY, read_id
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import SecurityGroup
from provisioning.network.selectors.visibility import sees_all

LARGEST = 1000
"""Maximum number of groups in one response."""
_WORDS: Schema = {"type": "string", "maxLength": 255}
GROUP = body("security_group", {"name": _WORDS, "description": _WORDS}, ("name", "description"), others=True)


class GroupProxy(ProxyView):
    """Base of the security group views."""

    def group(self, identity: str, rule: str) -> SecurityGroup:
        """Return a group that the caller may see, if this rule of the Network API allows it.

        Raises NotFoundError, and InvalidInputError for an invalid UUID.
        """
        check_uuid(identity)
        try:
            group = selectors.security_group_for(self.context, identity, all_projects=True)
        except NotFoundError as error:
            raise NotFoundError(f"Security group {identity[:64]} not found.") from error
        policy.enforce(self.context, rule, {"project_id": group.project_id})
        return group

    def wanted(self) -> dict[str, str]:
        """Return the name and description in the body."""
        said = self.checked_body()["security_group"]
        return {name: said[name] for name in ("name", "description")}

    def shown(self, group: SecurityGroup) -> Response:
        """Answer with the current state of a group."""
        rows = SecurityGroup.objects.prefetch_related("rules", REMOTE)
        return Response({"security_group": security_group(rows.get(pk=group.pk))})


class SecurityGroupsView(GroupProxy):
    """``GET`` and ``POST /os-security-groups``."""

    rules = {"GET": "os_compute_api:os-security-groups:get", "POST": "os_compute_api:os-security-groups:create"}
    queries = {"GET": limited}
    schemas: ClassVar = {"POST": GROUP}

    def get(self, request: Request) -> Response:
        """List the project's groups by name; with ``all_tenants``, operators list the groups of all projects.

        As in the Network API, the project's ``default`` group is created if it does not exist.
        """
        policy.enforce(self.context, "get_security_group")
        query = self.checked_query()
        project = self.context.project_id or NOBODY
        if self.context.project_id:
            services.ensure_default_security_group(project)
        groups = selectors.security_groups_for(self.context, all_projects="all_tenants" in query)
        if not ("all_tenants" in query and sees_all(self.context)):
            groups = groups.filter(project_id=project)
        first, most = int(last(query, "offset") or 0), int(last(query, "limit") or LARGEST)
        rows = groups.prefetch_related(REMOTE).order_by("project_id", "name", "id")
        found = rows[first : first + min(most or LARGEST, LARGEST)]
        return Response({"security_groups": [security_group(group) for group in found]})

    def post(self, request: Request) -> Response:
        """Create a group with the default rules."""
        policy.enforce(self.context, "create_security_group", {"project_id": self.context.project_id})
        said = self.wanted()
        with refused():
            made = services.create_security_group(
                self.context.project_id or NOBODY, said["name"], description=said["description"]
            )
        return self.shown(made)


class SecurityGroupView(GroupProxy):
    """``GET``, ``PUT`` and ``DELETE /os-security-groups/{id}``."""

    rules = {
        "GET": "os_compute_api:os-security-groups:show",
        "PUT": "os_compute_api:os-security-groups:update",
        "DELETE": "os_compute_api:os-security-groups:delete",
    }
    schemas: ClassVar = {"PUT": GROUP}

    def get(self, request: Request, security_group_id: str) -> Response:
        return self.shown(self.group(security_group_id, "get_security_group"))

    def put(self, request: Request, security_group_id: str) -> Response:
        """Update the name and description."""
        group = self.group(security_group_id, "update_security_group")
        with refused():
            return self.shown(services.update_security_group(group, self.wanted()))

    def delete(self, request: Request, security_group_id: str) -> Response:
        """Delete a group that is not in use by a port."""
        group = self.group(security_group_id, "delete_security_group")
        with refused():
            services.delete_security_group(group, even_default=sees_all(self.context))
        return Response(status=202)


def check_uuid(identity: str) -> None:
    """Raise InvalidInputError if the id of a group or rule is not a UUID."""
    if read_id(identity) is None:
        raise InvalidInputError("Security group id should be uuid", field="id")


@contextmanager
def refused() -> Iterator[None]:
    """Convert a ConflictError in this context, which the Network API answers with 409, into InvalidInputError (400), as
    in Nova.
    """
    try:
        yield
    except ConflictError as error:
        raise InvalidInputError(error.message) from error
