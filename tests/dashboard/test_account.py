"""Signing in, signing out, going on in another project."""

from __future__ import annotations

from django.test import Client

from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.passwords import set_password
from tests.dashboard.conftest import SignedIn
from tests.support.cast import PASSWORD, People, Person, make_project, make_user
from tests.support.tables import each_row


def sign_in(client: Client, name: str, password: str = PASSWORD, **more: str) -> object:
    return client.post("/auth/login/", {"user_name": name, "password": password, **more})


def test_everybody_else_is_sent_to_the_sign_in_page(db: None) -> None:
    answer = Client().get("/instances/?status=ACTIVE")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/auth/login/?next=/instances/%3Fstatus%3DACTIVE"


def test_sign_in_leads_to_the_overview(people: People) -> None:
    client = Client()
    answer = sign_in(client, "alice")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert "wonderland" in client.get("/").content.decode()


def test_sign_in_leads_to_the_requested_page(people: People) -> None:
    assert sign_in(Client(), "alice", next="/images/").headers["Location"] == "/images/"


@each_row("away", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_sign_in_leads_to_no_other_site(people: People, away: str) -> None:
    assert sign_in(Client(), "alice", next=away).headers["Location"] == "/"


def test_wrong_name_and_wrong_password_get_the_same_answer(people: People) -> None:
    wrong_password = sign_in(Client(), "alice", "wrong")
    wrong_name = sign_in(Client(), "nobody", "wrong")
    assert wrong_password.status_code == wrong_name.status_code == 401
    errors = wrong_password.context["form"].errors
    assert list(errors) == ["__all__"]
    assert wrong_name.context["form"].errors == errors
    assert "novella_session" not in wrong_name.cookies
    assert '<details class="mt-3" open>' in wrong_name.content.decode()


def test_the_password_is_never_sent_back(people: People) -> None:
    assert "s3cret-typo" not in sign_in(Client(), "alice", "s3cret-typo").content.decode()


def test_somebody_without_a_project_is_notified(people: People) -> None:
    make_user("dora")
    answer = sign_in(Client(), "dora")
    assert answer.status_code == 401
    assert "no role on any project" in answer.content.decode()


def test_sign_out_ends_the_session(signed_in: SignedIn, alice: Person) -> None:
    client = signed_in(alice)
    assert client.get("/").status_code == 200
    assert client.post("/auth/logout/").status_code == 302
    assert client.get("/").status_code == 302


def test_sign_out_by_a_link_is_refused(signed_in: SignedIn, alice: Person) -> None:
    client = signed_in(alice)
    assert client.get("/auth/logout/").status_code == 405
    assert client.get("/").status_code == 200


def test_a_new_password_ends_the_session_at_once(signed_in: SignedIn, alice: Person) -> None:
    client = signed_in(alice)
    set_password(alice.user, "another password")
    assert client.get("/instances/").status_code == 302
    assert client.get("/instances/", headers={"HX-Request": "true"}).status_code == 401


def test_a_person_with_two_projects_can_switch(people: People) -> None:
    other = make_project("looking-glass")
    assign_role(people.alice.user, other, "member")
    client = Client()
    sign_in(client, "alice")
    assert f"/auth/project/{other.id}/" in client.get("/").content.decode()
    assert client.post(f"/auth/project/{other.id}/").status_code == 302
    page = client.get("/").content.decode()
    assert "You now work in looking-glass." in page
    assert "<h1><bdi>looking-glass</bdi></h1>" in page


def test_nobody_enters_a_foreign_project(people: People) -> None:
    client = Client()
    sign_in(client, "alice")
    client.post(f"/auth/project/{people.charlie.project_id}/", follow=True)
    assert "<h1><bdi>wonderland</bdi></h1>" in client.get("/").content.decode()


def test_a_form_without_its_token_is_refused(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = sign_in(client, "alice")
    assert answer.status_code == 403
    assert "This form is too old" in answer.content.decode()
    assert "signed in or out since it was opened" in answer.content.decode()
