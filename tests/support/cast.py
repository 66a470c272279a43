"""The shared cast: alice (member) and bob (reader) in one project, charlie (member) outside it, an operator.

``tests/conftest.py`` loads this module as a plugin: a test names ``people`` (or ``alice`` …) among its arguments.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from pytest_django import Settings

from provisioning.common.context import RequestContext
from provisioning.identity.credentials.secret_hashes import Argon2Hasher
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.selectors import tokens
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.catalog import ensure_catalog
from provisioning.identity.services.domains import ensure_domain
from provisioning.identity.services.projects import ensure_project
from provisioning.identity.services.roles import BUILT_IN, ensure_role
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.users import ensure_user
from tests.support.kept import Again, Kept
from tests.support.standing import derived, standing

PASSWORD = "correct horse"
_hashes: dict[tuple[Any, ...], str] = {}
"""Password, hasher and cost → hash: some tests choose another hasher for themselves."""


def _hashing() -> tuple[Any, ...]:
    return (settings.PASSWORD_HASHERS[0], Argon2Hasher.memory_cost)


def make_domain(domain_id: str = "default", name: str = "Default") -> Domain:
    for role in BUILT_IN:
        ensure_role(role)
    ensure_catalog()
    return ensure_domain(domain_id, name)


def make_project(name: str, domain: Domain | None = None) -> Project:
    return ensure_project(domain or make_domain(), name)


def make_user(
    name: str,
    roles: dict[Project, str] | None = None,
    *,
    domain: Domain | None = None,
    password: str = PASSWORD,
    default_project: Project | None = None,
) -> User:
    """Make a user with these roles by project; the hash of a password is computed once in a test run."""
    domain = domain or make_domain()
    user = ensure_user(domain, name, default_project=default_project)
    known = (password, *_hashing())
    if known not in _hashes:
        user.set_password(password)
        _hashes[known] = user.password
    user.password = _hashes[known]
    user.tokens_valid_after = None
    user.save(update_fields=["password", "tokens_valid_after"])
    for project, role in (roles or {}).items():
        assign_role(user, project, role)
    return user


def context_of(user: User, project: Project | None) -> RequestContext:
    """The context that a token of the user for the project gives."""
    return tokens.context_of(issue_token(user, project, ("password",)).data)


@dataclass(frozen=True)
class Person:
    """A user in a project."""

    user: User
    project: Project

    @property
    def context(self) -> RequestContext:
        """Fresh at each use, as at each request."""
        return context_of(self.user, self.project)

    @property
    def token(self) -> str:
        return issue_token(self.user, self.project, ("password",)).value

    @property
    def headers(self) -> dict[str, str]:
        """For ``client.get(url, headers=alice.headers)``."""
        return {"X-Auth-Token": self.token}

    @property
    def project_id(self) -> uuid.UUID:
        return self.project.id

    @property
    def user_id(self) -> uuid.UUID:
        return self.user.id


@dataclass(frozen=True)
class People:
    alice: Person
    """Member of project wonderland."""
    bob: Person
    """Reader of the same."""
    charlie: Person
    """Member of project factory."""
    operator: Person
    """Admin of project admin."""

    def everybody(self) -> Iterable[Person]:
        return (self.alice, self.bob, self.charlie, self.operator)


_kept: dict[tuple[Any, ...], tuple[Kept, People]] = {}
"""The cast by the database and the settings that their rows depend on."""


def make_people() -> People:
    """Make the cast: by the services for the first time, and with rows like those after that."""
    key = (
        connection.vendor,
        *_hashing(),
        settings.REGION,
        settings.PASSWORD_EXPIRES_DAYS,
        settings.PASSWORD_CHANGE_ON_FIRST_USE,
    )
    kept, people = _kept.get(key) or (Kept("identity"), None)
    if not kept.fits:
        return _make_people()
    if people is None:
        made = kept.write(_make_people)
        _kept[key] = kept, _copied(made, Again())
        return made
    return _copied(people, kept.again())


def _copied(people: People, again: Again) -> People:
    domain = copy(people.alice.project.domain)
    projects = {each.project.pk: again.record(each.project, domain=domain) for each in people.everybody()}

    def person(kept: Person) -> Person:
        default = kept.user.default_project
        home = None if default is None else projects[default.pk]
        return Person(again.record(kept.user, domain=domain, default_project=home), projects[kept.project.pk])

    return People(*(person(each) for each in people.everybody()))


def _make_people() -> People:
    domain = make_domain()
    wonderland, factory, admin = (make_project(name, domain) for name in ("wonderland", "factory", "admin"))
    return People(
        alice=Person(_join("alice", "member", wonderland), wonderland),
        bob=Person(make_user("bob", {wonderland: "reader"}, domain=domain), wonderland),
        charlie=Person(make_user("charlie", {factory: "member"}, domain=domain), factory),
        operator=Person(_join("operator", "admin", admin), admin),
    )


def _join(name: str, role: str, project: Project) -> User:
    """Make a user whose default project this is."""
    return make_user(name, {project: role}, domain=project.domain, default_project=project)


class Api:
    """A client of one person for the JSON APIs: ``Api(alice).post("/compute/v2.1/servers", {...})``."""

    def __init__(self, person: Person | None, **headers: str) -> None:
        self.client = Client(raise_request_exception=False)
        self.headers = headers | (person.headers if person else {})

    def __getstate__(self) -> dict[str, str]:
        return self.headers

    def __setstate__(self, headers: dict[str, str]) -> None:
        self.client, self.headers = Client(raise_request_exception=False), headers

    def _send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent: dict[str, Any] = {
            "headers": self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        }
        if body is not None:
            sent |= {"data": body, "content_type": "application/json"}
        return self.client.generic(method, path, **_encoded(sent))

    def get(self, path: str, **headers: str) -> Any:
        return self._send("GET", path, **headers)

    def head(self, path: str, **headers: str) -> Any:
        return self._send("HEAD", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("PUT", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self._send("DELETE", path, **headers)


def _encoded(sent: dict[str, Any]) -> dict[str, Any]:
    if "data" in sent and not isinstance(sent["data"], bytes | str):
        sent["data"] = json.dumps(sent["data"])
    return sent


def sign_in_browser(client: Client, person: Person) -> None:
    """Put a token of the person into the test client's session, as a sign-in would."""
    session = client.session
    session["token"] = person.token
    session.save()
    client.cookies["novella_session"] = session.session_key or ""


@pytest.fixture
@standing
def people(db: None) -> People:
    return make_people()


@pytest.fixture
@derived
def alice(people: People) -> Person:
    return people.alice


@pytest.fixture
@derived
def bob(people: People) -> Person:
    return people.bob


@pytest.fixture
@derived
def charlie(people: People) -> Person:
    return people.charlie


@pytest.fixture
@derived
def operator(people: People) -> Person:
    return people.operator


@pytest.fixture
def plain_static(settings: Settings) -> None:
    """Pages render without ``collectstatic``: the names of static files are not hashed."""
    backend = "django.contrib.staticfiles.storage.StaticFilesStorage"
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": backend}}
