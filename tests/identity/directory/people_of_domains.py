"""A second domain with an administrator of its own, and short ways to ask as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from provisioning.identity.models import Domain, Project, Role, User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.tokens import issue_token
from tests.support.cast import Api, make_domain, make_project, make_user

V3 = "/identity/v3"


def role(name: str) -> Role:
    return Role.objects.get(name=name, domain=None)


@dataclass(frozen=True)
class Realm:
    """The domain ``other``: dora administers it and nothing else, erin is in it, with a role in its project."""

    domain: Domain
    project: Project
    dora: User
    erin: User

    @property
    def api(self) -> Api:
        """Dora's, by a token for her domain."""
        return Api(None, **{"X-Auth-Token": issue_token(self.dora, self.domain, ("password",)).value})


def make_realm() -> Realm:
    domain = make_domain("other", "Other")
    project = make_project("works", domain)
    dora = make_user("dora", domain=domain)
    grant(role("admin"), user=dora, domain=domain)
    return Realm(domain, project, dora, make_user("erin", {project: "member"}, domain=domain))


def made(api: Api, kind: str, **fields: Any) -> dict[str, Any]:
    """Make a domain, project, user or group by the API and return it."""
    response = api.post(f"{V3}/{kind}s", {kind: fields})
    assert response.status_code == 201, response.content
    result: dict[str, Any] = response.json()[kind]
    return result


def status(response: Any) -> int:
    code: int = response.status_code
    return code


def fault(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["message"]
