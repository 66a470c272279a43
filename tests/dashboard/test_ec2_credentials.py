"""EC2 credentials of the person who is signed in, and the files for AWS clients."""

from __future__ import annotations

import subprocess
from pathlib import Path

import boto3
import pytest
from django.conf import settings as configured
from django.test import Client, RequestFactory
from pytest_django import Settings

from portal.dashboard.api_access import ec2_files
from provisioning.identity.models import Credential
from provisioning.identity.selectors.catalog import catalog_for
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.credentials import create_credential, credential_id, session_name
from provisioning.identity.services.ec2 import METHOD, create_ec2_credential
from provisioning.identity.services.sign_ins import Client as Program
from provisioning.identity.services.sign_ins import record_client
from provisioning.identity.services.tokens import issue_token
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person, make_project

LIST, CREATE = "/api-access/ec2/", "/api-access/ec2/create/"
HERE = RequestFactory().get("/")


@pytest.fixture(autouse=True)
def _own_keys(settings: Settings, tmp_path: Path) -> None:
    settings.CREDENTIAL_KEYS_DIR = tmp_path / "keys"


def words(answer: object) -> str:
    return answer.content.decode()  # type: ignore[attr-defined, no-any-return]


def made(person: Person) -> tuple[str, str]:
    """Return the access key of a new credential, and the address that revokes it."""
    access, _ = create_ec2_credential(person.user, person.project)
    return access, f"{LIST}{credential_id(access)}/delete/"


def test_the_secret_is_shown_once(at_alice: Client, alice: Person) -> None:
    assert "No EC2 credentials in this project yet" in words(at_alice.get(LIST))
    answer = at_alice.post(CREATE)
    assert answer.status_code == 201
    assert "no-store" in answer.headers["Cache-Control"]
    record = Credential.objects.get()
    access, secret = answer.context["access"], answer.context["secret"]
    assert (record.user_id, record.project_id, record.id) == (alice.user_id, alice.project_id, credential_id(access))
    assert words(answer).count(f">{secret}<") == 1
    listed = words(at_alice.get(LIST))
    assert access in listed
    assert secret not in listed
    again = at_alice.get(CREATE)
    assert (again.status_code, again.headers["Location"], Credential.objects.count()) == (302, LIST, 1)


def test_it_is_revoked_after_a_question(at_alice: Client, alice: Person) -> None:
    access, delete = made(alice)
    assert access in words(at_alice.get(delete))
    assert Credential.objects.exists()
    assert f"{access} was revoked." in words(at_alice.post(delete, follow=True))
    assert not Credential.objects.exists()
    assert at_alice.post(delete).status_code == 404


@pytest.mark.slow
def test_those_of_others_and_of_other_projects_do_not_exist(
    signed_in: SignedIn, at_alice: Client, alice: Person, bob: Person, operator: Person
) -> None:
    elsewhere = Person(alice.user, make_project("elsewhere"))
    cert = create_credential(alice.user, kind="cert", blob="x", project=alice.project)
    result = [made(person) for person in (bob, elsewhere)]
    for browser in (at_alice, signed_in(operator)):
        page = words(browser.get(LIST))
        for access, delete in [*result, (cert.id, f"{LIST}{cert.id}/delete/")]:
            assert access not in page
            assert browser.get(delete).status_code == 404
            assert browser.post(delete).status_code == 404
    assert Credential.objects.count() == 3


def test_one_that_no_key_opens_is_listed_and_can_be_revoked(at_alice: Client, alice: Person) -> None:
    _, delete = made(alice)
    Credential.objects.update(encrypted_blob="nothing")
    assert "Unreadable" in words(at_alice.get(LIST))
    assert "cannot be read" in words(at_alice.get(delete))
    assert at_alice.post(delete).status_code == 303
    assert not Credential.objects.exists()


def test_what_an_application_credential_made_is_reported_to_go_with_it(at_alice: Client, alice: Person) -> None:
    made(alice)
    key, _ = create_application_credential(alice.user, alice.project, "nightly")
    Credential.objects.update(application_credential=key)
    assert "the application credential <bdi>nightly</bdi>" in words(at_alice.get(LIST))


def test_ending_a_session_says_that_its_credential_stays(at_alice: Client, alice: Person) -> None:
    access, _ = made(alice)
    program = Program.of("", session_name(credential_id(access)))
    session = record_client(alice.user, (METHOD,), program, project=alice.project)
    assert "EC2 credential lets it" in words(at_alice.get(f"/settings/sessions/{session.id}/end/"))


def test_a_session_of_a_restricted_application_credential_makes_and_revokes_none(alice: Person) -> None:
    key, _ = create_application_credential(alice.user, alice.project, "nightly")
    _, delete = made(alice)
    issued = issue_token(alice.user, alice.project, ("application_credential",), application_credential=key)
    browser = Client()
    session = browser.session
    session["token"] = issued.value
    session.save()
    browser.cookies["novella_session"] = session.session_key or ""
    assert browser.post(CREATE).status_code == 403
    assert browser.post(delete).status_code == 404  # it sees what was made with it
    assert Credential.objects.count() == 1


@pytest.mark.slow
def test_what_policy_forbids_has_no_button(at_alice: Client, alice: Person, settings: Settings, tmp_path: Path) -> None:
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text('"identity:ec2_create_credential": "!"\n"identity:ec2_delete_credential": "!"\n')
    access, delete = made(alice)
    page = words(at_alice.get(LIST))
    assert access in page
    assert CREATE not in page
    assert delete not in page
    assert at_alice.post(CREATE).status_code == 403
    assert at_alice.post(delete).status_code == 403
    assert Credential.objects.count() == 1
    assert LIST in words(at_alice.get("/api-access/"))
    settings.POLICY_FILE = tmp_path / "closed.yaml"
    settings.POLICY_FILE.write_text('"identity:ec2_list_credentials": "!"\n')
    assert LIST not in words(at_alice.get("/api-access/"))
    assert at_alice.get(LIST).status_code == 403


def test_a_list_of_many_takes_no_more_queries(
    at_alice: Client, alice: Person, django_assert_max_num_queries: object
) -> None:
    for _ in range(6):
        made(alice)
    with django_assert_max_num_queries(10):  # type: ignore[operator]
        at_alice.get(LIST)


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_clients_read_what_was_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = ec2_files.files(HERE, "the-key", "the-secret")
    for variable, name, text in (
        ("AWS_CONFIG_FILE", "config", files.config),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", files.credentials),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(variable, str(tmp_path / name))
    session = boto3.Session(profile_name=ec2_files.PROFILE)
    result = session.get_credentials()
    assert result is not None
    assert (result.access_key, result.secret_key) == ("the-key", "the-secret")
    client = session.client("ec2")
    assert (client.meta.endpoint_url, client.meta.region_name) == (ec2_files.endpoint(HERE), configured.REGION)
    compile(files.program, "instances.py", "exec")


@pytest.mark.django_db
def test_the_address_is_the_catalogs() -> None:
    (ec2,) = [each for each in catalog_for(None) if each["type"] == "ec2"]
    assert {endpoint["url"] for endpoint in ec2["endpoints"]} == {ec2_files.endpoint(HERE)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("region", "shown"), [("RegionOne", "RegionOne"), ("Region_One", "Region-One"), ("\N{SNOWMAN}", "novella")]
)
def test_a_region_that_clients_would_refuse_is_written_so_that_they_take_it(
    settings: Settings, region: str, shown: str
) -> None:
    settings.REGION = region
    assert ec2_files.region() == shown
    boto3.Session(region_name=ec2_files.region(), aws_access_key_id="k", aws_secret_access_key="s").client("ec2")


def test_a_shell_reads_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "ec2rc.sh").write_text(ec2_files.files(HERE, "the-key", "it's $(secret)").ec2rc)
    read = subprocess.run(
        ["bash", "-c", '. ./ec2rc.sh && echo "$EC2_ACCESS_KEY|$EC2_SECRET_KEY|$EC2_URL|${AWS_PROFILE-none}"'],
        cwd=tmp_path,
        env={"AWS_PROFILE": "left-over"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout == f"the-key|it's $(secret)|{ec2_files.endpoint(HERE)}|none\n"
