"""Users who are added to a project from a list: the preview, the creation, and the passwords."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from django.test import Client

from provisioning.common.errors import ConflictError
from provisioning.identity.models import Role, RoleAssignment, User
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.services.passwords import authenticate_password
from provisioning.rosters import members
from provisioning.rosters.members import JOINS, MEMBER, NEW, MemberList
from tests.dashboard.conftest import SignedIn
from tests.identity.directory.people_of_domains import make_realm
from tests.support.cast import PASSWORD, People, Person, make_user

CLASS = "anna, anna@school.example\nben\nalice\n"


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


@pytest.fixture
def path(alice: Person) -> str:
    return f"/projects/{alice.project_id}/members/list/"


def states(text: str, person: Person, role: str = "member") -> dict[int, str]:
    people = MemberList(text, person.project, Role.objects.get(name=role, domain=None))
    return {line.number: line.state for line in people.lines}


def reasons(text: str, person: Person) -> dict[int, str]:
    people = MemberList(text, person.project, Role.objects.get(name="member", domain=None))
    return {line.number: " ".join(line.reasons) for line in people.lines if line.reasons}


def checked(client: Client, path: str, text: str, role: str = "member") -> Any:
    return client.post(path, {"people": text, "role": role})


def create(client: Client, path: str, text: str, role: str = "member") -> Any:
    """Create the users of the preview."""
    page = checked(client, path, text, role)
    seen = re.search(r'name="seen" value="(\w*)"', page.content.decode())
    return client.post(path, {"people": text, "role": role, "seen": seen[1] if seen else "", "create": "1"})


def passwords(page: Any) -> dict[str, str]:
    shown = re.search(r'<pre id="passwords"[^>]*>(.*?)</pre>', page.content.decode(), re.DOTALL)
    assert shown
    return {row["user"]: row["password"] for row in csv.DictReader(io.StringIO(shown[1]))}


def test_the_preview_names_each_line_and_changes_nothing(at_operator: Client, path: str, alice: Person) -> None:
    before = User.objects.count(), RoleAssignment.objects.count()
    page = checked(at_operator, path, CLASS)
    assert page.status_code == 200
    assert [(line.number, line.user, line.state) for line, _ in page.context["lines"]] == [
        (1, "anna", NEW),
        (2, "ben", NEW),
        (3, "alice", MEMBER),
    ]
    assert "Create 2 users" in page.content.decode()
    assert (User.objects.count(), RoleAssignment.objects.count()) == before


def test_users_are_created_with_passwords_that_are_shown_once(at_operator: Client, path: str, alice: Person) -> None:
    page = create(at_operator, path, CLASS)
    assert page.status_code == 201
    assert page.headers["Cache-Control"].count("no-store") == 1
    made = passwords(page)
    assert made.keys() == {"anna", "ben"}
    anna = User.objects.get(name="anna")
    assert (anna.email, anna.domain_id, anna.default_project) == ("anna@school.example", "default", alice.project)
    assert roles_of(anna.id, alice.project_id) == {"member", "reader"}
    signed = authenticate_password(user_name="anna", domain_id="default", password=made["anna"], source="")
    assert signed == anna


def test_the_same_list_again_changes_nothing(at_operator: Client, path: str, alice: Person) -> None:
    create(at_operator, path, CLASS)
    before = list(User.objects.order_by("id").values()), list(RoleAssignment.objects.order_by("id").values())
    assert "There is nothing to do" in checked(at_operator, path, CLASS).content.decode()
    assert create(at_operator, path, CLASS).status_code == 303
    assert (list(User.objects.order_by("id").values()), list(RoleAssignment.objects.order_by("id").values())) == before


def test_existing_users_get_the_role_and_keep_the_rest(at_operator: Client, path: str, alice: Person) -> None:
    carl = make_user("carl")
    User.objects.filter(id=carl.id).update(email="carl@home.example")
    text = "carl, other@home.example"
    assert states(text, alice) == {1: JOINS}
    assert create(at_operator, path, text).status_code == 303
    after = User.objects.get(id=carl.id)
    assert (after.email, after.password) == ("carl@home.example", carl.password)
    assert "member" in roles_of(carl.id, alice.project_id)
    assert states(text, alice) == {1: MEMBER}


def test_one_wrong_line_prevents_all(at_operator: Client, path: str) -> None:
    text = f"{CLASS}carl, not an address\n"
    page = create(at_operator, path, text)
    assert page.status_code == 422
    assert "1 line cannot be used" in page.content.decode()
    assert page.context["lines"][0][0].number == 4
    assert not User.objects.filter(name__in=["anna", "ben", "carl"]).exists()


def test_a_refusal_of_the_last_user_rolls_all_back(
    at_operator: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(user: User, **_: Any) -> None:
        if user.name == "ben":
            raise ConflictError("The name ben exists.")
        user.save(force_insert=True)

    monkeypatch.setattr("provisioning.rosters.plan.store_user", refuse)
    page = create(at_operator, path, CLASS)
    assert page.status_code == 422
    assert "The name ben exists." in page.content.decode()
    assert not User.objects.filter(name="anna").exists()


def test_a_list_that_was_changed_after_its_preview_is_shown_again(at_operator: Client, path: str) -> None:
    page = checked(at_operator, path, CLASS)
    typed = {"people": f"{CLASS}carl\n", "role": "member", "seen": page.context["digest"], "create": "1"}
    assert at_operator.post(path, typed).status_code == 200
    assert not User.objects.filter(name="anna").exists()


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("anna\nben\nanna\n", 3, "Line 1"),
        ("anna\n\n, a@b.example\n", 3, "blank"),
        ("anna, nonsense\n", 1, "e-mail"),
        ("anna, a@b.example, member\n", 1, "3 cells"),
        ("user,password\nanna,secret\n", 1, "password"),
        ("user,project\nanna,other\n", 1, "project"),
        (f"{'x' * 256}\n", 1, "255"),
        ("an\x07na\n", 1, "control"),
        ('"an\nna"\n', 1, "control"),
        ('"anna\n', 1, "CSV"),
        ("\n \n", 1, "empty"),
        ("\N{LATIN SMALL LETTER A WITH DIAERESIS}" * (members.MOST_BYTES // 2 + 1), 1, "65,536 bytes"),
        ("".join(f"user{number}\n" for number in range(members.MOST_LINES + 1)), 501, "500 users"),
    ],
)
def test_a_wrong_line_has_its_number_and_reason(alice: Person, text: str, line: int, word: str) -> None:
    found = reasons(text, alice)
    assert word in found[line]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffuser;email\r\nanna;anna@school.example\r\nben;\r\n",
        "email\tuser\nanna@school.example\tanna\n\tben\n",
        "User,E-mail\nanna,anna@school.example\nben,\n".replace("E-mail", "email"),
        "anna;anna@school.example\r\nben\r\n",
        '"anna","anna@school.example"\n"ben",\n',
    ],
)
def test_lists_of_spreadsheets_are_read(alice: Person, text: str) -> None:
    people = MemberList(text, alice.project, Role.objects.get(name="member", domain=None))
    assert [(line.user, line.email, line.state) for line in people.lines] == [
        ("anna", "anna@school.example", NEW),
        ("ben", "", NEW),
    ]


def test_names_are_only_text(at_operator: Client, path: str) -> None:
    hostile = "<script>alert(1)</script>"
    text = f"{hostile}\nanna@school.example\n=1+1\n\N{RIGHT-TO-LEFT OVERRIDE}x\n"
    page = checked(at_operator, path, text).content.decode()
    assert "<script>alert(1)" not in page
    assert hostile.replace("<", "&lt;").replace(">", "&gt;") in page
    made = create(at_operator, path, text).content.decode()
    assert "<script>alert(1)" not in made
    assert "&#x27;=1+1," in made, "a spreadsheet would execute it"
    assert User.objects.filter(name__in=[hostile, "anna@school.example", "=1+1"]).count() == 3


def test_the_number_of_queries_of_a_preview_does_not_grow(
    at_operator: Client, path: str, django_assert_max_num_queries: Any
) -> None:
    checked(at_operator, path, CLASS)
    with django_assert_max_num_queries(30):
        page = checked(at_operator, path, "".join(f"user{number}\n" for number in range(200)))
    assert page.context["new"] == 200


def test_who_may_not_create_users_or_assign_roles_has_no_list(
    signed_in: SignedIn, alice: Person, bob: Person, path: str
) -> None:
    for person in (alice, bob):
        client = signed_in(person)
        assert client.get(path).status_code == 403
        assert client.post(path, {"people": "anna", "role": "member", "create": "1"}).status_code == 403
        assert "Users from a list" not in client.get("/project/").content.decode()
    assert not User.objects.filter(name="anna").exists()


def test_the_administrator_of_a_domain_adds_users_of_this_domain(people: People) -> None:
    realm = make_realm()
    client = Client(raise_request_exception=False)
    client.post("/auth/login/", {"user_name": "dora", "password": PASSWORD, "domain": realm.domain.name})
    path = f"/projects/{realm.project.id}/members/list/"
    assert path in client.get(f"/projects/{realm.project.id}/").content.decode()
    assert create(client, path, "anna\nalice\n").status_code == 201
    assert set(User.objects.filter(domain=realm.domain, name__in=["anna", "alice"]).values_list("name", flat=True)) == {
        "anna",
        "alice",
    }
    assert checked(client, path, "ben", "admin").status_code == 422, "only operators assign this role"
    assert client.get(f"/projects/{people.alice.project_id}/members/list/").status_code == 403
