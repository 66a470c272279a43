"""Commands that make users and projects, give roles, and let somebody in again."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.models import Project, RoleAssignment, User
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.selectors.tokens import context_for_token
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.passwords import authenticate_password
from provisioning.identity.services.users import set_user_enabled
from provisioning.network import services as network
from provisioning.network.models import Network, Router
from provisioning.quotas.selectors import limits_of
from tests.support.cast import PASSWORD, Person, make_domain, make_project

Run = Callable[..., str]


@pytest.fixture
def run(db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    make_domain()

    def command(*arguments: str, stdin: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        call_command(*arguments)
        return capsys.readouterr().out

    return command


def signs_in(name: str, password: str) -> bool:
    try:
        authenticate_password(user_name=name, domain_id="default", password=password, source="10.0.0.1")
    except NotAuthenticatedError:
        return False
    return True


def test_user_with_a_role(run: Run) -> None:
    project = make_project("algebra")
    out = run(
        *("create_user", "anna", "--project", "algebra", "--role", "member", "--email", "a@b.example"),
        "--password-stdin",
        stdin="a good password\n",
    )
    anna = User.objects.get(name="anna")
    assert anna.id.hex in out
    assert "a good password" not in out
    assert (anna.email, anna.default_project) == ("a@b.example", project)
    assert roles_of(anna.id, project.id) == {"member", "reader"}
    assert signs_in("anna", "a good password")


def test_generated_password_is_printed(run: Run) -> None:
    password = run("create_user", "anna", "--generate").split("Password: ")[1].strip()
    assert signs_in("anna", password)


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ([], "", "needs a password"),
        (["--password-stdin"], "", "no password on stdin"),
        (["--password-stdin"], "short\n", "at least 8"),
        (["--generate", "--project", "none", "--role", "member"], "", "no project none"),
        (["--generate", "--project", "algebra"], "", "belong together"),
        (["--generate", "--project", "algebra", "--role", "wizard"], "", "no role wizard. There are: admin"),
        (["--generate", "--domain", "nowhere"], "", "no domain nowhere"),
        (["--generate", "--default-project", "none"], "", "no project none"),
        (["--generate", "--email", "x" * 300], "", "email"),
    ],
)
def test_nothing_is_made_when_anything_is_wrong(run: Run, arguments: list[str], stdin: str, words: str) -> None:
    make_project("algebra")
    with pytest.raises(CommandError, match=words):
        run("create_user", "anna", *arguments, stdin=stdin)
    assert not User.objects.exists()


def test_user_who_exists_is_changed_only_when_asked(run: Run, alice: Person) -> None:
    with pytest.raises(CommandError, match="--update"):
        run("create_user", "alice", "--generate")
    assert signs_in("alice", PASSWORD)
    token = alice.token
    assert "Changed user alice" in run("create_user", "alice", "--update", "--email", "new@b.example")
    assert User.objects.get(name="alice").email == "new@b.example"
    assert User.objects.get(name="alice").default_project == alice.project
    assert context_for_token(token)
    run("create_user", "alice", "--update", "--password-stdin", stdin="another password\n")
    assert signs_in("alice", "another password")
    with pytest.raises(NotAuthenticatedError):
        context_for_token(token)


def test_project_with_quotas(run: Run) -> None:
    run("create_project", "science")
    run(
        "create_project",
        "algebra",
        "--parent",
        "science",
        "--description",
        "x",
        "--quota",
        "cores=40",
        "--quota",
        "ram=-1",
    )
    project = Project.objects.get(name="algebra")
    assert project.parent == Project.objects.get(name="science")
    assert project.description == "x"
    assert (limits_of(project.id)["cores"], limits_of(project.id)["ram"]) == (40, -1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--quota", "unicorns=1"], "no quota unicorns"),
        (["--quota", "cores"], "cores=40"),
        (["--quota", "cores=x"], "cores=40"),
        (["--quota", "cores=-7"], "-1"),
        (["--parent", "none"], "no project none"),
        (["--domain", "none"], "no domain none"),
    ],
)
def test_no_project_when_anything_is_wrong(run: Run, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        run("create_project", "algebra", *arguments)
    assert not Project.objects.exists()


def test_project_with_a_network(run: Run, operator: Person) -> None:
    with pytest.raises(CommandError, match="No default router:external network"):
        run("create_project", "algebra", "--with-network")
    assert not Project.objects.filter(name="algebra").exists()
    outside = network.create_network(operator.project_id, "public", external=True, is_default=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    assert "a network and a router" in run("create_project", "algebra", "--with-network")
    project = Project.objects.get(name="algebra")
    made = Network.objects.get(project_id=project.id)
    router = Router.objects.select_related("gateway_port").get(project_id=project.id)
    assert router.gateway_port is not None
    assert (made.subnets.count(), router.gateway_port.network_id) == (1, outside.id)


def test_project_of_a_name_is_made_once(run: Run) -> None:
    run("create_project", "algebra")
    with pytest.raises(CommandError, match="already"):
        run("create_project", "algebra")


@pytest.mark.parametrize(
    ("target", "columns"),
    [
        (["--project", "wonderland"], {"project__name": "wonderland"}),
        (["--project", "wonderland", "--inherited"], {"project__name": "wonderland", "inherited": True}),
        (["--domain", "Default"], {"domain": "default"}),
        (["--system"], {"system": True}),
    ],
)
def test_role_is_given_once(run: Run, alice: Person, target: list[str], columns: dict[str, Any]) -> None:
    assert "alice has the role admin" in run("grant_role", "admin", "--user", "alice", *target)
    assert "already" in run("grant_role", "admin", "--user", "alice", *target)
    assert RoleAssignment.objects.filter(user=alice.user, role__name="admin", **columns).count() == 1


def test_role_of_a_group(run: Run, alice: Person) -> None:
    group = create_group(alice.user.domain, "class")
    run("grant_role", "reader", "--group", "class", "--project", alice.project_id.hex)
    assert RoleAssignment.objects.filter(group=group, project=alice.project).count() == 1
    for arguments, words in (
        (["reader", "--group", "none", "--system"], "no group none"),
        (["reader", "--user", "none", "--system"], "no user none"),
        (["wizard", "--user", "alice", "--system"], "no role wizard"),
        (["reader", "--user", "alice", "--system", "--inherited"], "inherits"),
    ):
        with pytest.raises(CommandError, match=words):
            run("grant_role", *arguments)


def test_administrator_gets_in_again(run: Run, operator: Person, settings: Settings, tmp_path: Path) -> None:
    settings.CACHES = settings.CACHES | {
        "sign_in": {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": str(tmp_path)}
    }
    settings.LOCKOUT_ATTEMPTS = 3
    for number in range(3):
        with pytest.raises(NotAuthenticatedError):
            authenticate_password(
                user_name="operator", domain_id="default", password="wrong", source=f"10.0.1.{number}"
            )
    assert not signs_in("operator", PASSWORD)
    assert "was locked out until" in run("unlock_user", "operator")
    assert signs_in("operator", PASSWORD)
    assert "was not locked out" in run("unlock_user", "operator")
    token = operator.token
    run("reset_password", "operator", "--password-stdin", stdin="another password\n")
    assert signs_in("operator", "another password")
    with pytest.raises(NotAuthenticatedError):
        context_for_token(token)
    with pytest.raises(CommandError, match="no user none"):
        run("unlock_user", "none")


def test_disabled_user_is_notified_and_enabled_when_asked(run: Run, alice: Person) -> None:
    set_user_enabled(alice.user, enabled=False)
    assert "--enable" in run("reset_password", "alice", "--generate")
    out = run("reset_password", "alice", "--generate", "--enable")
    assert signs_in("alice", out.split("Password: ")[1].split()[0])


def test_locks_in_another_process_are_not_reported_to_be_lifted(run: Run, alice: Person, settings: Settings) -> None:
    settings.CACHES = settings.CACHES | {"sign_in": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    with pytest.raises(CommandError, match="NOVELLA_CACHE_URL"):
        run("unlock_user", "alice")
    assert "NOVELLA_CACHE_URL" in run("reset_password", "alice", "--generate")
