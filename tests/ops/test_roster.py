"""``manage.py import_roster``: a class from a CSV file, all or nothing."""

from __future__ import annotations

import csv
import errno
import io
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from pytest_django import DjangoAssertNumQueries

from provisioning.common.errors import ConflictError
from provisioning.identity.models import Group, Project, Role, RoleAssignment, User
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.services.domains import create_domain
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.passwords import authenticate_password
from provisioning.identity.services.roles import BUILT_IN
from provisioning.identity.services.users import store_user
from provisioning.quotas.selectors import limits_of
from provisioning.rosters.file import Problems, read
from provisioning.rosters.plan import Plan
from tests.support.cast import make_domain, make_project, make_user

HEAD = "user,domain,email,password,project,roles,groups,quota_cores,quota_ram\n"
CLASS = (
    HEAD
    + "anna,,anna@school.example,,algebra,member,class-a,40,\n"
    + 'ben,,,a good password,algebra,"reader, member",class-a,,\n'
    + "anna,,,,biology,reader,class-a|choir,,1024\n"
    + "carl,,,,,,,,\n"
)
Roster = Callable[..., str]


@pytest.fixture(autouse=True)
def _cloud(db: None) -> None:
    make_domain()


@pytest.fixture
def roster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Roster:
    def run(content: str | bytes, *arguments: str) -> str:
        path = tmp_path / "roster.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        capsys.readouterr()
        call_command("import_roster", str(path), *arguments)
        return capsys.readouterr().out

    return run


def everything() -> dict[str, list[Any]]:
    """Every row of every table that could have changed."""
    models = [*apps.get_app_config("identity").get_models(), *apps.get_app_config("quotas").get_models()]
    models += apps.get_app_config("events").get_models()
    return {model.__name__: list(model._default_manager.order_by("pk").values()) for model in models}


def steps(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("line ")]


def may_sign_in(name: str, password: str) -> bool:
    return authenticate_password(user_name=name, domain_id="default", password=password, source="").name == name


@pytest.mark.slow
def test_class_is_made(roster: Roster) -> None:
    out = roster(CLASS)
    anna, ben = User.objects.get(name="anna"), User.objects.get(name="ben")
    algebra, biology = Project.objects.get(name="algebra"), Project.objects.get(name="biology")
    assert roles_of(anna.id, algebra.id) == {"member", "reader"}
    assert roles_of(anna.id, biology.id) == {"reader"}
    assert roles_of(ben.id, biology.id) == frozenset()
    assert RoleAssignment.objects.filter(user=ben, project=algebra).count() == 2
    assert (anna.email, anna.default_project) == ("anna@school.example", algebra)
    assert {user.name for user in Group.objects.get(name="class-a").users.all()} == {"anna", "ben"}
    assert {user.name for user in Group.objects.get(name="choir").users.all()} == {"anna"}
    assert limits_of(algebra.id)["cores"] == 40
    assert limits_of(biology.id)["ram"] == 1024
    assert limits_of(biology.id)["cores"] == 20
    passwords = dict(re.findall(r"^(\w+),Default,(\S+)$", out, re.MULTILINE))
    assert passwords.keys() == {"anna", "carl"}
    assert "a good password" not in out
    assert may_sign_in("ben", "a good password")
    assert may_sign_in("anna", passwords["anna"])


def test_dry_run_tells_the_same_and_writes_nothing(roster: Roster) -> None:
    before = everything()
    dry = roster(CLASS, "--dry-run")
    assert everything() == before
    assert "nothing was changed" in dry
    assert "password" not in dry.lower()
    assert steps(dry) == steps(roster(CLASS))
    assert len(steps(dry)) == 16


def test_second_import_changes_nothing(roster: Roster) -> None:
    roster(CLASS)
    before = everything()
    assert roster(CLASS) == "Nothing to change.\n"
    assert roster(CLASS, "--dry-run") == "Nothing to change.\n"
    assert everything() == before


def test_who_exists_keeps_password_and_gets_the_rest(roster: Roster) -> None:
    user = make_user("anna", {make_project("algebra"): "reader"})
    other = create_group(user.domain, "other")
    add_to_group(other, user)
    out = roster(CLASS)
    assert may_sign_in("anna", "correct horse")
    assert "create user anna" not in out
    assert "change e-mail of anna from none to anna@school.example" in out
    assert "anna,Default," not in out
    assert RoleAssignment.objects.filter(user=user, role__name="reader", project__name="algebra").exists()
    assert other.users.filter(id=user.id).exists()


def test_every_error_is_reported_with_its_line_and_nothing_is_done(roster: Roster) -> None:
    before = everything()
    with pytest.raises(CommandError) as raised:
        roster(
            HEAD
            + "anna,nowhere,,,,,,,\n"
            + ",,,,,,,,\n"
            + " ,,x@y.example,,,,,,\n"
            + "ben,,no address,short,algebra,wizard,,x,-2\n"
            + "carl,,,,algebra,,,,\n"
            + "dora,,,,,member,,5,\n"
            + "emil,,,,algebra,member,,40,\n"
            + "emil,,,,algebra,reader,,50,\n"
            + "emil,,e1@y.example,,,,,,\n"
            + "emil,,e2@y.example,,biology,member,,,\n"
            + f"{'x' * 256},,,,{'y' * 65},member,{'z' * 65},99999999999,\n"
            + "fred,,,,,,,,,surplus\n"
        )
    errors = re.findall(r"^line (\d+): (.*)$", str(raised.value), re.MULTILINE)
    assert [int(line) for line, _ in errors] == [2, 4, 5, 5, 5, 5, 5, 6, 7, 7, 9, 9, 11, 12, 12, 12, 12, 13]
    text = str(raised.value)
    assert text.startswith("18 errors; nothing was changed.")
    for words in (
        "no domain nowhere",
        "user must not be blank",
        "'no address' is not an e-mail",
        "at least 8",
        "no role wizard",
        "quota_cores",
        "quota_ram",
        "no role for the project algebra",
        "roles without a project",
        "quotas without a project",
        "Line 8 has the same user and project",
        "Line 8 has another quota_cores",
        "Line 10 has another email",
    ):
        assert words in text, words
    assert everything() == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "line 1: .*user"),
        ("name,email\n", "'name' is not a column"),
        ("email\n", "must be user"),
        ("user,role,roles\n", "twice"),
        ("user,quota_unicorns\n", "'quota_unicorns' is not a column"),
        ('user\n"anna\n', "line 2: This is not a CSV"),
        ("user\nanna\0\n", "line 2: .*control"),
        ("user\nänna\n".encode("latin-1"), "line 2: This is not UTF-8"),
    ],
)
def test_what_is_no_roster(roster: Roster, content: str | bytes, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        roster(content)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffuser;project;roles\r\n\r\nänna;algebra;member,reader\r\n".encode(),
        "user\tproject\troles\nänna\talgebra\tmember;reader\n".encode("utf-16"),
        'User , Project,"Role"\n\n,,\n"änna","algebra","member|reader"\n'.encode(),
        '"user","project","roles"\n"änna","algebra","member,\nreader"'.encode(),
    ],
)
def test_spreadsheets_ways_of_writing(roster: Roster, content: bytes) -> None:
    roster(content)
    given = RoleAssignment.objects.filter(user__name="änna", project__name="algebra")
    assert set(given.values_list("role__name", flat=True)) == {"member", "reader"}


def test_line_numbers_count_lines_of_the_file(roster: Roster) -> None:
    with pytest.raises(CommandError, match="line 6: There is no role wizard"):
        roster('user,project,roles,groups\n\nanna,algebra,member,"a,\nb"\n\nben,algebra,wizard,\n')


def test_passwords_go_to_a_file_of_ones_own(roster: Roster, tmp_path: Path) -> None:
    path = tmp_path / "passwords.csv"
    out = roster(CLASS, "--passwords-file", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["user"] for row in rows] == ["anna", "carl"]
    assert may_sign_in("carl", rows[1]["password"])
    assert rows[0]["password"] not in out
    with pytest.raises(CommandError, match="File exists"):
        roster(HEAD + "new,,,,,,,,\n", "--passwords-file", str(path))
    assert not User.objects.filter(name="new").exists()
    assert roster(CLASS, "--passwords-file", str(path)) == "Nothing to change.\n"


def test_failure_in_the_middle_leaves_nothing_behind(
    roster: Roster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store_user

    def refuse(user: User, **fields: Any) -> None:
        if user.name == "ben":
            raise ConflictError("Somebody made ben just now.")
        real(user, **fields)

    before = everything()
    monkeypatch.setattr("provisioning.rosters.plan.store_user", refuse)
    with pytest.raises(CommandError, match="line 3: Somebody made ben just now"):
        roster(CLASS, "--passwords-file", str(tmp_path / "passwords.csv"))
    assert everything() == before
    assert not (tmp_path / "passwords.csv").exists()


def test_full_disk_leaves_nothing_behind(roster: Roster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = everything()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CommandError, match="No space left"):
        roster(CLASS, "--passwords-file", str(tmp_path / "passwords.csv"))
    assert everything() == before
    assert not (tmp_path / "passwords.csv").exists()


def test_other_domains(roster: Roster) -> None:
    school = create_domain("school")
    out = roster("user,domain,project,roles\nanna,school,algebra,member\nanna,,algebra,member\n")
    assert "create user anna (domain school)" in out
    assert User.objects.filter(name="anna").count() == 2
    assert Project.objects.get(name="algebra", domain=school)
    assert Role.objects.count() == len(BUILT_IN)


@pytest.mark.parametrize("size", [3, 300])
def test_large_class_is_planned_in_few_queries(size: int, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    problems = Problems()
    text = HEAD + "".join(f"student{number},,,,algebra,member,class,40,\n" for number in range(size))
    rows = read(text.encode(), problems)
    with django_assert_num_queries(6):
        plan = Plan(rows, problems)
    assert not problems
    assert len(plan.steps) == 3 + 3 * size


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Cannot read"):
        call_command("import_roster", str(tmp_path / "none.csv"))
