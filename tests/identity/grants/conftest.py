"""A second domain with its administrator, beside the shared cast."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.projects import create_project
from provisioning.identity.services.tokens import issue_token
from tests.support.cast import Api, People, make_domain, make_project, make_user
from tests.support.standing import standing

V3 = "/identity/v3"


def role_named(name: str) -> Role:
    return Role.objects.get(name=name, domain=None)


def api_of(user: User, scope: Project | Domain | str | None) -> Api:
    """A client with a token of the user for a project, a domain or the system."""
    return Api(None, **{"X-Auth-Token": issue_token(user, scope, ("password",)).value})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Acme:
    """A domain with its administrator dora, ed in the group staff, the project foundry and forge below it."""

    domain: Domain
    dora: User
    ed: User
    staff: Group
    foundry: Project
    forge: Project

    @property
    def api(self) -> Api:
        return api_of(self.dora, self.domain)


@pytest.fixture
@standing
def acme(people: People) -> Acme:
    domain = make_domain("acme", "Acme")
    foundry = make_project("foundry", domain)
    forge = create_project(domain, "forge", parent=foundry)
    dora, ed = make_user("dora", domain=domain), make_user("ed", domain=domain)
    staff = create_group(domain, "staff")
    add_to_group(staff, ed)
    grant(role_named("admin"), user=dora, domain=domain)
    return Acme(domain, dora, ed, staff, foundry, forge)
