"""Application credentials of the person who is signed in, and the files for programs."""

from __future__ import annotations

import re
import shlex
import subprocess
from datetime import timedelta

import pytest
import yaml
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import Settings

from portal.dashboard.copy_as.client_files import application_credential_files, password_files
from provisioning.identity.models import ApplicationCredential
from provisioning.identity.services.application_credentials import create_application_credential
from tests.dashboard.conftest import SignedIn, offered, ticked
from tests.support.cast import Person, make_project, make_user

LIST, CREATE = "/application-credentials/", "/application-credentials/create/"
WANTED = {"name": "backup", "roles": ["reader"], "expiry": "30"}

HERE = RequestFactory().get("/")


def words(answer: object) -> str:
    return answer.content.decode()  # type: ignore[attr-defined, no-any-return]


def made(person: Person, name: str = "backup") -> ApplicationCredential:
    return create_application_credential(person.user, person.project, name)[0]


def test_an_empty_list_says_what_they_are_for(at_alice: Client) -> None:
    assert "Give each program one of its own" in words(at_alice.get(LIST))


def test_the_form_offers_ones_own_roles(at_alice: Client, signed_in: SignedIn, operator: Person) -> None:
    page = at_alice.get(CREATE)
    assert offered(page, "roles") == ["member", "reader"]
    assert set(ticked(page, "roles")) == {"member", "reader"}
    page = signed_in(operator).get(CREATE)
    assert "admin" in offered(page, "roles")
    assert "admin" not in ticked(page, "roles")


def test_the_secret_is_shown_once(at_alice: Client, alice: Person) -> None:
    answer = at_alice.post(CREATE, {**WANTED, "description": "every night"})
    assert answer.status_code == 201
    assert "no-store" in answer.headers["Cache-Control"]
    record = ApplicationCredential.objects.get()
    secret = answer.context["secret"]
    assert words(answer).count(f">{secret}<") == 1
    assert (record.user_id, record.project_id, record.name) == (alice.user_id, alice.project_id, "backup")
    assert [role.name for role in record.roles.all()] == ["reader"]
    assert record.expires_at is not None
    assert timedelta(days=29) < record.expires_at - timezone.now() <= timedelta(days=30)
    listed = words(at_alice.get(LIST))
    assert "every night" in listed
    assert secret not in listed
    assert secret not in record.secret_hash


@pytest.mark.slow
def test_the_files_sign_a_program_in(at_alice: Client) -> None:
    files = at_alice.post(CREATE, WANTED).context["files"]
    cloud = yaml.safe_load(files.clouds_yaml)["clouds"]["novella"]
    assert cloud["auth_type"] == "v3applicationcredential"
    proof = {
        "id": cloud["auth"]["application_credential_id"],
        "secret": cloud["auth"]["application_credential_secret"],
    }
    identity = {"methods": ["application_credential"], "application_credential": proof}

    def sign_in() -> int:
        body = {"auth": {"identity": identity}}
        return Client().post("/identity/v3/auth/tokens", body, content_type="application/json").status_code

    assert sign_in() == 201
    at_alice.post(f"{LIST}{ApplicationCredential.objects.get().id}/delete/")
    assert sign_in() == 401


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"description": "a\0b"}, "description"),
        ({"roles": []}, "roles"),
        ({"roles": ["admin"]}, "roles"),
        ({"roles": ["reader", "nothing\0"]}, "roles"),
        ({"expiry": "0"}, "expiry"),
        ({"expiry": "at", "expires_at": ""}, "expires_at"),
        ({"expiry": "at", "expires_at": "tomorrow"}, "expires_at"),
        ({"expiry": "at", "expires_at": "2001-01-01T00:00"}, "expires_at"),
        ({"expiry": "at", "expires_at": "9999-12-31T23:59+00:01"}, "expires_at"),
        ({"access_rules": "compute GET"}, "access_rules"),
        ({"access_rules": "compute FETCH /v2.1/servers"}, "access_rules"),
        ({"access_rules": "compute GET v2.1/servers"}, "access_rules"),
        ({"access_rules": "\0 GET /v2.1/servers"}, "access_rules"),
        ({"access_rules": "compute GET /" + "x" * 200}, "access_rules"),
    ],
)
def test_what_is_wrong_is_reported_at_its_field(at_alice: Client, fields: dict[str, object], place: str) -> None:
    answer = at_alice.post(CREATE, {**WANTED, **fields})
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [place]
    assert not ApplicationCredential.objects.exists()


def test_what_was_typed_stays(at_alice: Client) -> None:
    fields = {**WANTED, "name": "", "description": "every night", "access_rules": "compute GET /v2.1/servers"}
    page = words(at_alice.post(CREATE, fields))
    assert 'value="every night"' in page
    assert ">\ncompute GET /v2.1/servers</textarea>" in page
    assert '<option value="30" selected>' in page


def test_an_end_of_ones_choice(at_alice: Client) -> None:
    at_alice.post(CREATE, {**WANTED, "expiry": "at", "expires_at": "2099-12-31T18:00"})
    assert "2099-12-31 18:00" in words(at_alice.get(LIST)).replace("\N{NO-BREAK SPACE}", " ")


def test_never_is_an_end_too(at_alice: Client) -> None:
    at_alice.post(CREATE, {**WANTED, "expiry": "never"})
    assert ApplicationCredential.objects.get().expires_at is None
    assert re.search(r">\s*never\s*<", words(at_alice.get(LIST)))


def test_access_rules_and_unrestricted(at_alice: Client) -> None:
    rules = "compute get /v2.1/servers/**\n\n  image   GET /v2/images  \n"
    at_alice.post(CREATE, {**WANTED, "access_rules": rules, "unrestricted": "on"})
    record = ApplicationCredential.objects.get()
    assert record.unrestricted
    assert {str(rule) for rule in record.access_rules.all()} == {
        "compute GET /v2.1/servers/**",
        "image GET /v2/images",
    }
    page = words(at_alice.get(LIST))
    assert "Unrestricted" in page
    assert "2 access rules" in page


def test_a_name_is_taken_once(at_alice: Client) -> None:
    at_alice.post(CREATE, WANTED)
    assert list(at_alice.post(CREATE, WANTED).context["form"].errors) == ["name"]
    assert ApplicationCredential.objects.count() == 1


def test_an_expired_one_is_marked(at_alice: Client, alice: Person) -> None:
    record = made(alice)
    ApplicationCredential.objects.filter(id=record.id).update(expires_at=timezone.now() - timedelta(days=1))
    assert "Expired" in words(at_alice.get(LIST))


def test_it_is_deleted_after_a_question(at_alice: Client, alice: Person) -> None:
    delete = f"{LIST}{made(alice).id}/delete/"
    assert "Delete backup?" in words(at_alice.get(delete))
    assert ApplicationCredential.objects.exists()
    assert "backup was deleted." in words(at_alice.post(delete, follow=True))
    assert not ApplicationCredential.objects.exists()


def test_those_of_others_do_not_exist(at_alice: Client, signed_in: SignedIn, charlie: Person, operator: Person) -> None:
    delete = f"{LIST}{made(charlie, 'charlies').id}/delete/"
    for browser in (at_alice, signed_in(operator)):
        assert "charlies" not in words(browser.get(LIST))
        assert browser.get(delete).status_code == 404
        assert browser.post(delete).status_code == 404
    assert ApplicationCredential.objects.exists()


def test_a_list_of_many_takes_no_more_queries(
    at_alice: Client, alice: Person, django_assert_max_num_queries: object
) -> None:
    for number in range(6):
        made(alice, f"backup-{number}")
    with django_assert_max_num_queries(12):  # type: ignore[operator]
        at_alice.get(LIST)


def test_what_policy_forbids_has_no_button(
    at_alice: Client, alice: Person, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text('"identity:create_application_credential": "!"\n"identity:delete_application_credential": "!"\n')
    settings.POLICY_FILE = path
    record = made(alice)
    page = words(at_alice.get(LIST))
    assert "backup" in page
    assert CREATE not in page
    assert "/delete/" not in page
    assert CREATE not in words(at_alice.get("/api-access/"))
    assert at_alice.post(CREATE, WANTED).status_code == 403
    assert at_alice.post(f"{LIST}{record.id}/delete/").status_code == 403
    assert ApplicationCredential.objects.count() == 1


# --- API access and the files ----------------------------------------------------------------------------------------


def test_the_page_has_the_endpoints_of_the_catalog(at_alice: Client, alice: Person) -> None:
    page = at_alice.get("/api-access/")
    shown = {endpoint["service"]["type"]: endpoint["url"] for endpoint in page.context["endpoints"]}
    assert shown["compute"].endswith("/compute/v2.1")
    assert shown["identity"].endswith("/identity/v3")
    assert alice.project_id.hex in words(page)
    assert "password" not in yaml.safe_load(page.context["files"].clouds_yaml)["clouds"]["novella"]["auth"]


STRANGE = 'it\'s $(touch x) `id` "q" # no: {yes} \N{SNOWMAN}'


def test_strange_names_stay_inside_their_quotes(db: None) -> None:
    project = make_project(STRANGE)
    user = make_user(STRANGE, {project: "member"})
    files = password_files(HERE, Person(user, project).context)
    auth = yaml.safe_load(files.clouds_yaml)["clouds"]["novella"]["auth"]
    assert (auth["username"], auth["project_name"]) == (STRANGE, STRANGE)
    assert f"export OS_USERNAME={shlex.quote(STRANGE)}\n" in files.openrc


def test_a_shell_reads_what_was_meant(db: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    project = make_project(STRANGE)
    files = password_files(HERE, Person(make_user("carol", {project: "member"}), project).context)
    folder = tmp_path_factory.mktemp("shell")
    (folder / "openrc.sh").write_text(files.openrc)
    read = subprocess.run(
        ["bash", "-c", '. ./openrc.sh && printf "|%s|%s|%s" "$OS_PROJECT_NAME" "$OS_PASSWORD" "${OS_TOKEN-none}"'],
        cwd=folder,
        env={"OS_TOKEN": "left over"},
        input=" s3cret\\ \n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout.endswith(f"|{STRANGE}| s3cret\\ |none")
    assert [path.name for path in folder.iterdir()] == ["openrc.sh"]


def test_a_secret_is_quoted_as_well() -> None:
    files = application_credential_files(HERE, "id", STRANGE)
    auth = yaml.safe_load(files.clouds_yaml)["clouds"]["novella"]["auth"]
    assert auth["application_credential_secret"] == STRANGE
    assert f"OS_APPLICATION_CREDENTIAL_SECRET={shlex.quote(STRANGE)}\n" in files.openrc
