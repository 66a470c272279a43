"""One's own settings: profile, password, sessions."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from portal.dashboard.settings import listing
from provisioning.identity.models import SignIn, User
from provisioning.identity.selectors.entries import projects_of
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.roles import ensure_role
from provisioning.identity.services.users import update_user
from tests.dashboard.conftest import SignedIn
from tests.support.cast import PASSWORD, Api, People, Person, make_domain, make_project
from tests.support.tables import each_row

PROFILE, CHANGE, SESSIONS = "/settings/", "/settings/password/", "/settings/sessions/"
NEW = "another good password"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def enter(name: str, password: str = PASSWORD, program: str = FIREFOX) -> Client:
    """A browser in which somebody has signed in by the form, so that it has a session of its own."""
    browser = Client(raise_request_exception=False, headers={"user-agent": program})
    assert browser.post("/auth/login/", {"user_name": name, "password": password}).status_code == 303
    return browser


def session_of(name: str) -> SignIn:
    return SignIn.objects.get(user__name=name)


def words(answer: object) -> str:
    return answer.content.decode()  # type: ignore[attr-defined, no-any-return]


# --- profile ---------------------------------------------------------------------------------------------------------


def test_the_profile_says_who_one_is(at_alice: Client, alice: Person) -> None:
    page = words(at_alice.get(PROFILE))
    assert alice.user_id.hex in page
    assert "Default" in page
    assert '<span class="tag"><bdi>member</bdi></span>' in page


def test_the_profile_is_changed(at_alice: Client, alice: Person) -> None:
    other = make_project("looking-glass")
    assign_role(alice.user, other, "reader")
    fields = {"email": "alice@example.org", "description": "curious", "project": str(other.id)}
    assert "Your settings were saved." in words(at_alice.post(PROFILE, fields, follow=True))
    user = User.objects.get(id=alice.user_id)
    assert (user.email, user.description, user.default_project_id) == ("alice@example.org", "curious", other.id)
    assert 'value="alice@example.org"' in words(at_alice.get(PROFILE))


@each_row(
    ("field", "value"),
    [
        ("email", "no address"),
        ("email", "a@" + "b" * 300 + ".org"),
        ("email", "a\0@example.org"),
        ("description", "a\0b"),
        ("description", "x" * 70_000),
        ("project", "no id"),
        ("project", "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_what_is_wrong_in_the_profile_is_reported_at_its_field(at_alice: Client, field: str, value: str) -> None:
    answer = at_alice.post(PROFILE, {field: value})
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]


def test_nobody_starts_in_a_foreign_project(at_alice: Client, alice: Person, charlie: Person) -> None:
    assert at_alice.post(PROFILE, {"project": str(charlie.project_id)}).status_code == 422
    assert User.objects.get(id=alice.user_id).default_project_id == alice.project_id


def test_the_profile_changes_oneself_only(at_alice: Client, bob: Person) -> None:
    at_alice.post(PROFILE, {"email": "x@example.org", "user": str(bob.user_id), "id": str(bob.user_id)})
    assert User.objects.get(id=bob.user_id).email == ""


@pytest.fixture
def strict(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An operator who lets nobody change or end anything of their own."""
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text('"novella:update_profile": "!"\n"novella:end_sign_in": "!"\n"identity:change_password": "!"\n')
    settings.POLICY_FILE = path


@pytest.mark.slow
def test_what_policy_forbids_has_no_button(people: People, strict: None) -> None:
    browser, other = enter("alice"), enter("alice")
    assert ">Save<" not in words(browser.get(PROFILE))
    assert browser.post(PROFILE, {"email": "x@example.org"}).status_code == 403
    assert "End all others" not in words(browser.get(SESSIONS))
    assert browser.post("/settings/sessions/end/").status_code == 403
    assert browser.get(CHANGE).status_code == 403
    assert other.get("/").status_code == 200


# --- password --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_new_password_ends_everything_but_this_browser(people: People) -> None:
    here, there, program = enter("alice"), enter("alice"), Api(people.alice)
    answer = here.post(CHANGE, {"original": PASSWORD, "password": NEW, "again": NEW}, follow=True)
    assert "Your password was changed." in words(answer)
    assert here.get("/").status_code == 200
    assert there.get("/").status_code == 302
    assert program.get("/compute/v2.1/servers").status_code == 401
    assert Client().post("/auth/login/", {"user_name": "alice", "password": PASSWORD}).status_code == 401
    enter("alice", NEW)


def test_after_a_new_password_this_browser_is_a_session_again(people: People) -> None:
    here = enter("alice")
    enter("alice")
    here.post(CHANGE, {"original": PASSWORD, "password": NEW, "again": NEW})
    page = here.get(SESSIONS)
    assert [row["here"] for row in page.context["rows"]] == [True]


def test_after_a_new_password_one_stays_in_the_project(people: People) -> None:
    other = make_project("looking-glass")
    assign_role(people.alice.user, other, "member")
    here = enter("alice")
    here.post(f"/auth/project/{other.id}/")
    here.post(CHANGE, {"original": PASSWORD, "password": NEW, "again": NEW})
    assert "<h1><bdi>looking-glass</bdi></h1>" in words(here.get("/"))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"original": "wrong", "password": NEW, "again": NEW}, "original"),
        ({"original": PASSWORD, "password": NEW, "again": NEW + "x"}, "again"),
        ({"original": PASSWORD, "password": "", "again": ""}, "password"),
        ({"original": PASSWORD, "password": "x" * 5000, "again": "x" * 5000}, "password"),
        ({"original": "a\0b", "password": NEW, "again": NEW}, "original"),
        ({"password": NEW, "again": NEW}, "original"),
    ],
)
def test_a_password_that_is_refused_stays(people: People, fields: dict[str, str], place: str) -> None:
    here = enter("alice")
    answer = here.post(CHANGE, fields)
    assert answer.status_code == 422
    assert place in answer.context["form"].errors
    assert NEW not in words(answer)
    assert "no-store" in answer.headers["Cache-Control"]
    enter("alice")


@pytest.mark.slow
def test_guessing_the_present_password_has_an_end(people: People) -> None:
    here = enter("alice")
    errors = [
        here.post(CHANGE, {"original": f"guess {n}", "password": NEW, "again": NEW})
        .context["form"]
        .errors["original"][0]
        for n in range(7)
    ]
    assert "current password is wrong" in errors[0]
    assert "Try again in" in errors[-1]
    assert here.get("/").status_code == 200


def test_a_locked_password_is_left_alone(people: People) -> None:
    here = enter("alice")
    update_user(people.alice.user, options={"lock_password": True})
    assert "Your password is locked." in words(here.get(CHANGE))
    assert here.post(CHANGE, {"original": PASSWORD, "password": NEW, "again": NEW}).status_code in {403, 422}
    enter("alice")


# --- sessions --------------------------------------------------------------------------------------------------------


def test_the_list_marks_this_browser_and_names_the_others(people: People) -> None:
    enter("alice", program="Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/605.1")
    here = enter("alice")
    enter("charlie")
    page = here.get(SESSIONS)
    shown = [(row["client"].name, row["here"]) for row in page.context["rows"]]
    assert shown == [("Firefox on Linux", True), ("Safari on iPhone", False)]
    assert words(page).count("This browser") == 1


def test_a_session_ends_at_once(people: People) -> None:
    there = enter("alice")
    row = session_of("alice")
    here = enter("alice")
    end = f"/settings/sessions/{row.id}/end/"
    assert "End the session of Firefox on Linux?" in words(here.get(end))
    assert there.get("/").status_code == 200
    assert "has ended" in words(here.post(end, follow=True))
    assert there.get("/").status_code == 302
    assert here.get("/").status_code == 200


@pytest.mark.slow
def test_all_others_end_at_once(people: People) -> None:
    others = [enter("alice"), enter("alice")]
    here, stranger = enter("alice"), enter("charlie")
    assert "stays signed in" in words(here.get("/settings/sessions/end/"))
    assert "2 sessions have ended." in words(here.post("/settings/sessions/end/", follow=True))
    assert [browser.get("/").status_code for browser in (*others, here, stranger)] == [302, 302, 200, 200]


def test_the_sessions_of_others_do_not_exist(people: People, operator: Person) -> None:
    there = enter("charlie")
    row = session_of("charlie")
    for browser in (enter("alice"), enter("operator")):
        assert browser.get(f"/settings/sessions/{row.id}/end/").status_code == 404
        assert browser.post(f"/settings/sessions/{row.id}/end/").status_code == 404
    assert there.get("/").status_code == 200


def test_a_program_is_listed_with_what_it_calls_itself(people: People) -> None:
    sign_in = {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"id": people.alice.user_id.hex, "password": PASSWORD}},
        }
    }
    Client(headers={"user-agent": "openstacksdk/4.4.0 keystoneauth1/5.10.0"}).post(
        "/identity/v3/auth/tokens", {"auth": sign_in}, content_type="application/json"
    )
    rows = enter("alice").get(SESSIONS).context["rows"]
    assert [row["client"].name for row in rows if not row["here"]] == ["OpenStack SDK 4.4"]


def test_a_client_cannot_write_into_the_page(people: People) -> None:
    enter("alice", program='curl/8 "><script>alert(1)</script>')
    page = words(enter("alice").get(SESSIONS))
    assert "<script>alert" not in page


@each_row(
    ("text", "name", "icon"),
    [
        (FIREFOX, "Firefox on Linux", "window"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537 Chrome/130 Safari/537 Edg/130.0", "Edge on Windows", "window"),
        ("Mozilla/5.0 (Linux; Android 15) AppleWebKit/537 Chrome/130 Mobile Safari/537", "Chrome on Android", "phone"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/18 Safari/605", "Safari on macOS", "window"),
        ("", "Browser", "window"),
    ],
)
def test_browsers_have_names(text: str, name: str, icon: str) -> None:
    assert listing.browser(text) == listing.ClientWords(name, icon)


@each_row(
    ("text", "name"),
    [
        ("python-openstackclient/8.1.0 keystoneauth1/5.10.0", "openstack command 8.1"),
        ("curl/8.5.0", "curl 8.5"),
        ("my-backup 3", "my-backup 3"),
        ("x" * 200, "x" * 48),
        ("  ", "A program without a name"),
    ],
)
def test_programs_have_names(text: str, name: str) -> None:
    assert listing.program(text) == name


# --- the project switch ----------------------------------------------------------------------------------------------


def projects(person: Person, count: int) -> None:
    for number in range(count):
        assign_role(person.user, make_project(f"project-{number:02}"), "member")


def test_changing_the_project_keeps_the_list_one_is_on(at_alice: Client, alice: Person) -> None:
    projects(alice, 1)
    page = words(at_alice.get("/images/upload/"))
    assert '<input type="hidden" name="next" value="/images/">' in page
    other = projects_of(alice.user_id)[0]
    assert at_alice.post(f"/auth/project/{other.id}/", {"next": "/images/"}).headers["Location"] == "/images/"


@each_row("place", ["//evil.example/", "https://evil.example/", "/admin/", "/instances/delete/", ""])
def test_changing_the_project_leads_to_no_other_page(at_alice: Client, alice: Person, place: str) -> None:
    assert at_alice.post(f"/auth/project/{alice.project_id}/", {"next": place}).headers["Location"] == "/"


def test_a_few_projects_are_simply_listed(at_alice: Client, alice: Person) -> None:
    projects(alice, 3)
    page = words(at_alice.get("/"))
    assert "data-project-search" not in page
    assert page.count('aria-current="true"') == 2  # side bar and phone
    assert "project-02" in page


@pytest.mark.slow
def test_among_many_projects_one_searches(at_alice: Client, alice: Person) -> None:
    projects(alice, 12)
    page = words(at_alice.get("/"))
    assert "data-project-search" in page
    assert "project-07" not in page
    everything = words(at_alice.get("/auth/projects/"))
    assert everything.count("formaction") == 13
    assert 'aria-current="true"' in everything
    result = words(at_alice.get("/auth/projects/?q=T-0%207"))
    assert result.count("formaction") == 1
    assert "project-07" in result
    assert "No project has this name." in words(at_alice.get("/auth/projects/?q=%00nothing"))


def test_the_search_finds_no_foreign_project(at_alice: Client, people: People) -> None:
    assert "factory" not in words(at_alice.get("/auth/projects/?q=fact"))


def test_domains_are_named_when_there_are_several(at_alice: Client, alice: Person) -> None:
    assert "Default</bdi></span>" not in words(at_alice.get("/"))
    assign_role(alice.user, make_project("lab", make_domain("lab", "Laboratory")), "reader")
    page = words(at_alice.get("/"))
    assert "Laboratory</bdi></span>" in page
    assert "Default</bdi></span>" in page


def test_projects_by_a_group_and_from_above_can_be_entered(at_alice: Client, alice: Person) -> None:
    lab = make_domain("lab", "Laboratory")
    below = make_project("optics", lab)
    group = create_group(alice.user.domain, "physicists")
    add_to_group(group, alice.user)
    grant(ensure_role("member"), group=group, domain=lab, inherited=True)
    assert f"/auth/project/{below.id}/" in words(at_alice.get("/"))
    at_alice.post(f"/auth/project/{below.id}/")
    assert "<h1><bdi>optics</bdi></h1>" in words(at_alice.get("/"))


def test_very_many_projects_are_not_all_sent(at_alice: Client, alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.dashboard.frame.projects.SHOWN", 5)
    projects(alice, 9)
    page = words(at_alice.get("/auth/projects/"))
    assert page.count("formaction") == 5
    assert "5 more" in page


# --- signed out in another window ------------------------------------------------------------------------------------


def stale(signed_in: SignedIn, person: Person) -> Client:
    """A browser with a page from before it signed out in another window."""
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = signed_in(person).cookies
    del browser.cookies["novella_session"]
    browser.cookies["novella_csrf"] = "x" * 32
    return browser


def test_a_form_after_the_sign_out_leads_to_the_sign_in(signed_in: SignedIn, alice: Person) -> None:
    browser = stale(signed_in, alice)
    sent = {"headers": {"referer": "http://testserver/instances/launch/?image=1"}}
    answer = browser.post("/instances/launch/", {"name": "x"}, **sent)
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/auth/login/?next=/instances/launch/%3Fimage%3D1"
    assert "Your session has ended" in words(browser.get("/auth/login/"))


@each_row(
    "referer", ["", "http://evil.example/instances/", "http://[", "not an address", "http://testserver/auth/login/"]
)
def test_only_a_page_of_this_portal_is_led_back_to(signed_in: SignedIn, alice: Person, referer: str) -> None:
    answer = stale(signed_in, alice).post("/instances/launch/", headers={"referer": referer})
    assert answer.headers["Location"] == "/auth/login/?next=/"


def test_a_part_of_a_page_is_notified_that_nobody_is_signed_in(signed_in: SignedIn, alice: Person) -> None:
    assert stale(signed_in, alice).post("/instances/launch/quote/", headers={"hx-request": "true"}).status_code == 401


def test_who_is_signed_in_is_notified_that_the_form_is_too_old(signed_in: SignedIn, alice: Person) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = signed_in(alice).cookies
    answer = browser.post("/instances/launch/", {"name": "x"})
    assert answer.status_code == 403
    assert "This form is too old" in words(answer)
