"""Refusals in people's words: no rules of policy, no names of fields, no ids."""

from __future__ import annotations

import uuid

import pytest

from portal.dashboard.words.plain import NOT_ALLOWED, plain
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.tables import each_row

ID = uuid.UUID(int=7)


@each_row(
    ("text", "message"),
    [
        ("Policy doesn't allow identity:list_projects to be performed.", NOT_ALLOWED),
        ("Policy doesn't allow x to be performed. Wanted: role:admin", NOT_ALLOWED),
        ("Invalid input for metadata: a key must have 1 to 255 characters.", "A key must have 1 to 255 characters."),
        ("Invalid input for min_count: it must be at least 1.", "It must be at least 1."),
        ("Server disk was unable to be resized because: Its root disk has 20 GiB.", "Its root disk has 20 GiB."),
        ("The min_count is too large.", "The number of instances is too large."),
        (f"Volume {ID} has changed meanwhile. Try again.", "The volume has changed meanwhile. Try again."),
        (
            f"Cannot 'stop' instance {ID} while it is in task_state powering-off",
            "The instance does not allow this in its current state: it is shutting down.",
        ),
        (
            f"Cannot 'stop' instance {ID} while it is in vm_state error",
            "The instance does not allow this in its current state: it is in error.",
        ),
        (
            f"Cannot 'update tags' instance {ID} while it is in vm_state resized",
            "The instance does not allow this in its current state: it is resized.",
        ),
        ("Invalid input for availability_zone: 'a' is none.", "'a' is none."),
        ("The server's host does not answer.", "The instance's host does not answer."),
        ("The server group has servers.", "The server group has instances."),
        ("No DNS server and no name servers.", "No DNS server and no name servers."),
        ("Use letters and the character _.", "Use letters and the character _."),
        ("The file /etc/cloud_init.cfg is too large.", "The file /etc/cloud_init.cfg is too large."),
        ("The name 'my_web_1' is taken.", "The name 'my_web_1' is taken."),
        ("mail-server is not offered to anybody.", "mail-server is not offered to anybody."),
        ("web is not offered to anybody.", "web is not offered to anybody."),
        ("data_disk is in use by server.example and server_1.", "data_disk is in use by server.example and server_1."),
        ("Invalid input for roles: heat_stack_owner is none.", "heat_stack_owner is none."),
        ("The name 'old server' is taken.", "The name 'old server' is taken."),
        ("\u2068שרת server\u2069 is the server.", "\u2068שרת server\u2069 is the instance."),
        ("task_state says no.", "Task state says no."),
        (
            "URI for web-download does not pass filtering: http://[::1]/x: its host is not allowed.",
            "Its host is not allowed.",
        ),
        (
            "URI for web-download does not pass filtering: the given one: only http and https are allowed.",
            "Only http and https are allowed.",
        ),
    ],
)
def test_what_the_apis_say_is_put_in_plain_words(text: str, message: str) -> None:
    assert plain(text) == message


def test_fields_are_called_by_their_labels() -> None:
    assert plain("Set a volume_type or a size_gb.", {"volume_type": "Type", "size_gb": "GiB"}) == "Set a type or a GiB."


@pytest.mark.slow
def test_who_may_not_reads_no_rule(signed_in: SignedIn, bob: Person, alice: Person) -> None:
    for path in ("/instances/launch/", "/projects/create/"):
        answer = signed_in(bob).get(path)
        assert answer.status_code == 403
        assert NOT_ALLOWED in answer.content.decode()
        assert "Policy" not in answer.content.decode()


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"user_data": "x" * 60_000}, "user_data"),
        ({"count": "0"}, "count"),
        ({"metadata": f"{'k' * 300}=v"}, "metadata"),
    ],
)
def test_a_launch_that_is_refused_says_why(
    signed_in: SignedIn, alice: Person, cloud: Cloud, typed: dict[str, str], field: str
) -> None:
    usual = {"name": "web", "image": str(cloud.image.id), "flavor": "1", "networks": "none", "count": "1"}
    answer = signed_in(alice).post("/instances/launch/", {**usual, **typed})
    assert answer.status_code == 422
    [text] = answer.context["form"].errors[field]
    assert "Invalid" not in text
    assert "_" not in text
    assert "base64" not in text


@pytest.mark.parametrize("sent", ["", "abc"])
def test_what_is_no_number_is_called_that(signed_in: SignedIn, alice: Person, cloud: Cloud, sent: str) -> None:
    """A browser sends nothing of letters in a field for numbers."""
    answer = signed_in(alice).post("/instances/launch/", {"count": sent})
    assert answer.context["form"].errors["count"] == ["Enter a whole number."]
