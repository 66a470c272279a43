"""Writers of identity at the same moment: no answer is an accident, and nothing stays half made.

On SQLite, which has one writer at a time, and on PostgreSQL.
"""

# ruff: noqa: B023 - the threads end before a loop goes on

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection

from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute.models import Instance, KeyPair
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.identity.models import (
    ApplicationCredential,
    Credential,
    Domain,
    Group,
    GroupMembership,
    Project,
    Role,
    RoleAssignment,
    SignIn,
    User,
)
from provisioning.identity.roles import safeguards
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.assignments import assign_role, grant, revoke_grant
from provisioning.identity.services.credentials import create_credential
from provisioning.identity.services.domains import create_domain, delete_domain, set_domain_enabled, update_domain
from provisioning.identity.services.groups import add_to_group, create_group, delete_group, remove_from_group
from provisioning.identity.services.projects import create_project, delete_project, update_project
from provisioning.identity.services.roles import create_role
from provisioning.identity.services.sign_ins import Client, open_browser_session, record_client
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.trusts import TrustRequest, create_trust, use_trust
from provisioning.identity.services.users import create_user, delete_user, set_user_enabled, update_user
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.network.models import Port, SecurityGroup
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.services.repair import examine
from tests.support.cast import People, context_of, make_domain, make_people, make_project, make_user
from tests.support.clouds import Cloud
from tests.support.landing import rounds

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("locks"), pytest.mark.slow]
ROUNDS = 6
OF_EACH = rounds(1, 6)
OF_ALL = rounds(2, 6)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0Ks0KqTPHDqyPZoQmJLoJUD6JsGRXSh9ARV3yZxvV"
HERE = Client.of("127.0.0.1", "test")


def at_once(*works: Callable[[], object]) -> list[object]:
    """Do all of it in threads that start together; returns what each returned, and anticipated errors."""
    results: list[object] = [None] * len(works)
    start = threading.Barrier(len(works))

    def run(index: int) -> None:
        try:
            start.wait(300)
            results[index] = works[index]()
        except Exception as error:  # noqa: BLE001 - looked at below
            results[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    accidents = [result for result in results if isinstance(result, Exception) and not isinstance(result, NovellaError)]
    assert not accidents
    return results


def names(results: list[object]) -> Counter[str]:
    """Count the answers: errors by their class, all others as ``done``."""
    return Counter(type(result).__name__ if isinstance(result, Exception) else "done" for result in results)


@pytest.fixture
def cast(transactional_db: None) -> People:
    return make_people()


@OF_EACH
def test_a_project_goes_or_gets_something_never_both(cast: People, rounds: int) -> None:
    cloud = Cloud.make()
    growth: list[Callable[[RequestContext], object]] = [
        cloud.launch,
        lambda context: network.create_port(context.project_id or uuid.uuid4(), cloud.network),
        lambda context: images.create(context, name="mine"),
        lambda context: network.ensure_default_security_group(context.project_id or uuid.uuid4()),
    ]
    seen: Counter[str] = Counter()
    for number in range(rounds * len(growth)):
        project = make_project(f"p{number}")
        assign_role(cast.alice.user, project, "member")
        context = context_of(cast.alice.user, project)
        grow = growth[number % len(growth)]
        results = at_once(lambda: delete_project(project), lambda: grow(context), lambda: grow(context))
        there = Project.objects.filter(id=project.id).exists()
        seen[f"there {there}"] += 1
        if there:
            continue
        for model in (Instance, Port, Image, SecurityGroup, Reservation, QuotaUsage):
            assert not model._default_manager.filter(project_id=project.id).exists(), (model, results)
    assert examine() == []


def test_what_was_allowed_before_its_project_went_is_refused(cast: People) -> None:
    cloud, project = Cloud.make(), make_project("gone")
    assign_role(cast.alice.user, project, "member")
    context = context_of(cast.alice.user, project)
    delete_project(project)
    for grow in (
        lambda: cloud.launch(context),
        lambda: network.create_port(project.id, cloud.network),
        lambda: network.create_network(project.id, "mine"),
        lambda: images.create(context, name="mine"),
        lambda: network.ensure_default_security_group(project.id),
    ):
        with pytest.raises(NovellaError):
            grow()
    assert not Reservation.objects.filter(project_id=project.id).exists()


@OF_EACH
def test_a_user_goes_with_everything_or_stays(cast: People, rounds: int) -> None:
    project = cast.alice.project
    role = Role.objects.get(name="member", domain=None)
    group = create_group(make_domain(), "all")
    works: list[Callable[[User, RequestContext], object]] = [
        lambda user, _: create_application_credential(user, project, uuid.uuid4().hex, roles=[role]),
        lambda user, _: create_credential(user, kind="totp", blob="x"),
        lambda user, _: record_client(user, ["password"], HERE),
        lambda user, _: open_browser_session(user, HERE, methods=["password"], project=project),
        lambda user, context: create_key_pair(context, uuid.uuid4().hex, KEY),
        lambda user, _: grant(role, user=user, domain=user.domain),
        lambda user, _: add_to_group(group, user),
        lambda user, _: issue_token(user, project, ("password",)),
    ]
    for number in range(rounds * len(works)):
        user = make_user(f"u{number}", {project: "member"})
        context = context_of(user, project)
        work = works[number % len(works)]
        at_once(lambda: delete_user(user), lambda: work(user, context), lambda: work(user, context))
        if User.objects.filter(id=user.id).exists():
            continue
        for model in (ApplicationCredential, Credential, SignIn, KeyPair, RoleAssignment, GroupMembership):
            assert not model._default_manager.filter(user_id=user.id).exists(), model
        assert not Reservation.objects.filter(project_id=user.id).exists()
    assert examine() == []


def test_what_was_proved_before_its_user_went_is_refused(cast: People) -> None:
    project, user = cast.alice.project, cast.alice.user
    role = Role.objects.get(name="member", domain=None)
    context = cast.alice.context
    User.objects.get(id=user.id)
    delete_user(User.objects.get(id=user.id))
    for work in (
        lambda: create_application_credential(user, project, "x", roles=[role]),
        lambda: create_credential(user, kind="totp", blob="x"),
        lambda: record_client(user, ["password"], HERE),
        lambda: open_browser_session(user, HERE, methods=["password"], project=project),
        lambda: create_key_pair(context, "laptop", KEY),
        lambda: grant(role, user=user, project=project),
        lambda: set_user_enabled(user, enabled=False),
    ):
        with pytest.raises(NovellaError):
            work()


@pytest.mark.parametrize(
    "way",
    [
        "group",
        "mixed",
        *(pytest.param(way, marks=pytest.mark.deep) for way in ("disable", "delete", "revoke", "update")),
    ],
)
@OF_ALL
def test_two_administrators_cannot_put_each_other_out(way: str, cast: People, rounds: int) -> None:
    project = cast.operator.project
    admin = Role.objects.get(name="admin", domain=None)
    for number in range(rounds):
        set_user_enabled(cast.operator.user, enabled=True)
        pair = [make_user(f"admin-{way}-{number}-{index}") for index in range(2)]
        group = create_group(make_domain(), f"g-{way}-{number}")
        for user in pair:
            if way == "group":
                grant(admin, group=group, system=True)
                add_to_group(group, user)
            else:
                grant(admin, user=user, project=project)
        set_user_enabled(cast.operator.user, enabled=False)
        put_out: dict[str, Callable[[User], object]] = {
            "disable": lambda user: set_user_enabled(user, enabled=False),
            "update": lambda user: update_user(user, enabled=False, description="out"),
            "delete": delete_user,
            "revoke": lambda user: revoke_grant(admin, user=user, project=project),
            "group": lambda user: remove_from_group(group, user),
        }
        first, second = ("disable", "revoke") if way == "mixed" else (way, way)
        results = at_once(lambda: put_out[first](pair[0]), lambda: put_out[second](pair[1]))
        assert safeguards.has_administrator()
        assert names(results) == {"done": 1, "ForbiddenError": 1}
        with_operator = User.objects.filter(id=cast.operator.user.id)
        with_operator.update(enabled=True)
        for user in pair:
            User.objects.filter(id=user.id).delete()


@OF_ALL
def test_one_grant_at_once_is_one_row(cast: People, rounds: int) -> None:
    role = Role.objects.get(name="reader", domain=None)
    user, project = cast.charlie.user, cast.alice.project
    for _ in range(rounds):
        give = lambda: grant(role, user=user, project=project)  # noqa: E731
        take = lambda: revoke_grant(role, user=user, project=project)  # noqa: E731
        at_once(give, give, give, take, take)
        assert RoleAssignment.objects.filter(user=user, project=project).count() <= 1
        grant(role, user=user, project=project)
        assert names(at_once(take, take, take)) == {"done": 1, "NotFoundError": 2}


def test_one_program_at_once_is_one_session(cast: People) -> None:
    for number in range(ROUNDS):
        client = Client.of("127.0.0.1", f"program {number}")
        results = at_once(*[lambda: record_client(cast.alice.user, ["password"], client)] * 6)
        assert names(results) == {"done": 6}
        assert SignIn.objects.filter(user=cast.alice.user, program=client.program).count() == 1


def test_trust_is_used_so_often_and_no_oftener(cast: People) -> None:
    given = TrustRequest(cast.charlie.user, False, cast.alice.project, [Role.objects.get(name="reader")], None, 3)
    trust = create_trust(cast.alice.context, given)
    assert names(at_once(*[lambda: use_trust(trust)] * 6)) == {"done": 3, "ForbiddenError": 3}
    trust.refresh_from_db()
    assert (trust.remaining_uses, trust.used_up_at is None) == (0, False)


def test_one_name_at_once_is_one(cast: People) -> None:
    domain = make_domain()
    makers: list[tuple[type[User | Project | Group], Callable[[str], object]]] = [
        (User, lambda name: create_user(domain, name)),
        (Project, lambda name: create_project(domain, name)),
        (Group, lambda name: create_group(domain, name)),
        (Domain, create_domain),  # type: ignore[list-item]
        (Role, create_role),  # type: ignore[list-item]
    ]
    for number in range(ROUNDS // 2):
        for model, make in makers:
            name = f"same{number}"
            results = at_once(*[lambda make=make, name=name: make(name)] * 4)  # type: ignore[misc]
            assert names(results) == {"done": 1, "ConflictError": 3}, model
            assert model._default_manager.filter(name=name).count() == 1


def test_a_domain_goes_with_everything_or_stays(cast: People) -> None:
    for number in range(ROUNDS):
        domain = create_domain(f"d{number}", enabled=False)
        create_user(domain, "first")
        at_once(
            lambda: delete_domain(domain),
            lambda: create_user(domain, "late"),
            lambda: create_project(domain, "late"),
            lambda: create_group(domain, "late"),
            lambda: create_role("late", domain=domain),
        )
        there = Domain.objects.filter(id=domain.id).exists()
        for model in (User, Project, Group, Role):
            if not there:
                assert not model._default_manager.filter(domain_id=domain.id).exists()


@OF_ALL
def test_a_mix_of_everything_has_no_accident(cast: People, rounds: int) -> None:
    """Changes that lock the same rows from different ends: a ring is broken and tried again, and nobody is told."""
    domain, role = make_domain(), Role.objects.get(name="member", domain=None)
    for number in range(rounds):
        user, project = make_user(f"m{number}"), make_project(f"m{number}")
        group = create_group(domain, f"m{number}")
        other = create_domain(f"m{number}")
        at_once(
            lambda: update_user(user, enabled=False, description="x"),
            lambda: delete_user(user),
            lambda: update_project(project, enabled=False, extra={"a": "b"}),
            lambda: delete_project(project),
            lambda: grant(role, user=user, project=project),
            lambda: grant(role, group=group, project=project),
            lambda: add_to_group(group, user),
            lambda: delete_group(group),
            lambda: set_domain_enabled(other, enabled=False),
            lambda: update_domain(other, enabled=False, extra={"a": "b"}),
            lambda: create_user(other, "x"),
        )
