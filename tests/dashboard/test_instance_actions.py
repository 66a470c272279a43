"""Actions of an instance: the page offers all of the Compute API, as the state allows, and each dialog does its own."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from portal.api.compute.server_actions import ACTIONS, lifecycle
from portal.dashboard.instances.actions.begin import refusal
from portal.dashboard.instances.detail.menu import ABSENT, ELSEWHERE, GROUPS, PRIMARY, entries, menu_for
from portal.dashboard.instances.dialogs import DIALOGS
from provisioning.common.errors import NovellaError
from provisioning.compute.actions.base import HostAction
from provisioning.compute.actions.lock import lock
from provisioning.compute.actions.registry import actions
from provisioning.compute.models import BlockDevice, Instance
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.network.models import Port
from provisioning.quotas.models import QuotaLimit
from tests.dashboard.conftest import SignedIn
from tests.support.actions import REQUESTS, begin
from tests.support.cast import Person
from tests.support.clouds import Cloud, state_of
from tests.support.ports import guest_ports
from tests.support.standing import standing
from tests.support.tables import each_row

HTMX = {"HX-Request": "true"}
IN_MENU = {key for _, places in GROUPS for place in places for key in place}


@pytest.fixture
@standing
def web(cloud: Cloud, alice: Person) -> Instance:
    instance = cloud.launch(alice.context, name="web")
    cloud.run()
    return instance


def known(person: Person, instance: Instance) -> dict[str, str]:
    """Return key → why not, of the actions that the policy allows the person."""
    return {key: item.why for key, item in menu_for(person.context, cloud_row(instance)).known.items()}


def cloud_row(instance: Instance) -> Instance:
    return Instance.objects.select_related("host").get(pk=instance.pk)


# ----- the table ------------------------------------------------------------------------------------------------------


def test_every_action_is_offered_or_deliberately_absent() -> None:
    """The registry of server actions, and the actions of the Compute API that are not in it."""
    of_registry = {action.api for action in actions.values()}
    there = set(actions) | {name for name in ACTIONS if name not in of_registry | lifecycle._REMOVED.keys()}
    offered = (IN_MENU | {sheet.action for sheet in DIALOGS} | set(ELSEWHERE)) & there
    assert there - offered - set(ABSENT) == set(), "offer it in GROUPS or ELSEWHERE, or say in ABSENT why it is absent"
    assert offered & set(ABSENT) == set()
    assert (set(ABSENT) | set(ELSEWHERE)) - there == set(), "there is no such action"
    assert all(ABSENT.values())


def test_the_menu_has_every_entry_once_and_no_other() -> None:
    places = [key for _, groups in GROUPS for place in groups for key in place]
    assert sorted(places) == sorted(entries())
    assert set(PRIMARY) <= set(places)


def begins(key: str, person: Person, cloud: Cloud, instance: Instance) -> bool:
    """Whether the action begins now; it is rolled back."""
    with transaction.atomic():
        try:
            with transaction.atomic():
                begin(key, person.context, cloud, instance)
        except NovellaError:
            return False
        finally:
            transaction.set_rollback(True)
    return True


def stopped(alice: Person, cloud: Cloud, web: Instance) -> None:
    begin("power_off", alice.context, cloud, web)
    cloud.run()


def paused(alice: Person, cloud: Cloud, web: Instance) -> None:
    begin("pause", alice.context, cloud, web)
    cloud.run()


def offloaded(alice: Person, cloud: Cloud, web: Instance) -> None:
    begin("shelve", alice.context, cloud, web)
    cloud.run()


def busy(alice: Person, cloud: Cloud, web: Instance) -> None:
    begin("reboot", alice.context, cloud, web)


def locked(alice: Person, cloud: Cloud, web: Instance) -> None:
    lock(alice.context, web.id, reason="a demo")


def silent(alice: Person, cloud: Cloud, web: Instance) -> None:
    Host.objects.update(forced_down=True)


def running(alice: Person, cloud: Cloud, web: Instance) -> None:
    """Nothing happens."""


@pytest.mark.slow
@each_row("brought", [running, stopped, paused, offloaded, busy, locked, silent])
def test_the_page_refuses_what_the_service_refuses(alice: Person, cloud: Cloud, web: Instance, brought: Any) -> None:
    brought(alice, cloud, web)
    here = cloud_row(web)
    for key, action in actions.items():
        if key in {"soft_delete", "refresh_ports", "refresh_volume"} or (action.takes_request and key not in REQUESTS):
            continue
        why, begun = refusal(here, action, masters=False), begins(key, alice, cloud, web)
        assert begun or why, key
        assert isinstance(action, HostAction) is False or not (begun and why), (key, why)  # to unlock twice is allowed


def test_the_reason_is_a_sentence_and_grey(at_alice: Client, alice: Person, cloud: Cloud, web: Instance) -> None:
    stopped(alice, cloud, web)
    assert known(alice, web)["reboot"] == "It is stopped. It must be active."
    page = at_alice.get(f"/instances/{web.id}/").content.decode()
    part = page[page.index('data-testid="cannot-reboot"') - 100 :]
    assert 'aria-disabled="true"' in part[:200]
    assert "It is stopped. It must be active." in part
    assert 'data-testid="primary-start"' in page
    locked(alice, cloud, web)
    assert known(alice, web)["power_on"] == "It is locked: a demo."


def test_operators_act_on_locked_instances_and_reset_states(
    alice: Person, operator: Person, cloud: Cloud, web: Instance
) -> None:
    assert not {"reset_state", "offload"} & known(alice, web).keys()
    locked(alice, cloud, web)
    assert known(operator, web)["power_off"] == known(operator, web)["reset_state"] == ""


def test_who_is_only_reading_gets_no_action(signed_in: SignedIn, bob: Person, web: Instance) -> None:
    assert known(bob, web).keys() == {"security_groups"}
    client = signed_in(bob)
    for sheet in DIALOGS:
        if "<" not in sheet.path:
            assert client.get(f"/instances/{web.id}/{sheet.path}/").status_code == 403, sheet.path


def test_dialogs_of_other_projects_do_not_exist(signed_in: SignedIn, charlie: Person, web: Instance) -> None:
    client = signed_in(charlie)
    for sheet in DIALOGS:
        if "<" not in sheet.path and sheet.action != "reset_state":
            assert client.get(f"/instances/{web.id}/{sheet.path}/").status_code == 404, sheet.path
            assert client.post(f"/instances/{web.id}/{sheet.path}/").status_code == 404, sheet.path


# ----- the dialogs ----------------------------------------------------------------------------------------------------


def test_an_action_returns_to_the_tab_on_which_it_was_asked(at_alice: Client, web: Instance) -> None:
    shown = f"/instances/{web.id}/settings/"
    headers = {**HTMX, "HX-Current-URL": f"http://testserver{shown}"}
    dialog = at_alice.get(f"/instances/{web.id}/tags/", headers=headers).content.decode()
    assert f'name="next" value="{shown}"' in dialog
    refused = at_alice.post(f"/instances/{web.id}/tags/", {"tags": "a/b", "next": shown})
    assert refused.status_code == 422
    assert f'name="next" value="{shown}"' in refused.content.decode()
    assert at_alice.post(f"/instances/{web.id}/tags/", {"tags": "a\nb", "next": shown})["Location"] == shown
    for elsewhere in ("/volumes/", "//evil.example/", "/instances/"):
        to = at_alice.post(f"/instances/{web.id}/tags/", {"tags": "a", "next": elsewhere})["Location"]
        assert to == ("/instances/" if elsewhere == "/instances/" else f"/instances/{web.id}/")
    assert at_alice.post(f"/instances/{web.id}/delete/", {"next": shown})["Location"] == "/instances/"


def test_name_tags_and_metadata_are_changed(at_alice: Client, web: Instance) -> None:
    values = {"name": "db", "description": "of the shop", "hostname": "db-1"}
    assert at_alice.post(f"/instances/{web.id}/rename/", values).status_code == 303
    at_alice.post(f"/instances/{web.id}/tags/", {"tags": "red\n\n blue \nred"})
    at_alice.post(f"/instances/{web.id}/metadata/", {"metadata": "role=db\nnote=a=b"})
    web.refresh_from_db()
    assert (web.name, web.description, web.hostname) == ("db", "of the shop", "db-1")
    assert web.tags == ["red", "blue"]
    assert web.metadata == {"role": "db", "note": "a=b"}
    page = at_alice.get(f"/instances/{web.id}/settings/").content.decode()
    for text in ("of the shop", "<bdi>red</bdi>", "<bdi>a=b</bdi>"):
        assert text in page
    at_alice.post(f"/instances/{web.id}/rename/", {"name": "db", "description": "", "hostname": "db-1"})
    web.refresh_from_db()
    assert web.description is None


@each_row(
    ("dialog", "typed", "field"),
    [
        ("rename", {"name": "", "hostname": "web"}, "name"),
        ("rename", {"name": "web", "hostname": "no host!"}, "hostname"),
        ("tags", {"tags": "a,b"}, "tags"),
        ("tags", {"tags": "x" * 61}, "tags"),
        ("metadata", {"metadata": "no sign"}, "metadata"),
        ("metadata", {"metadata": f"{'k' * 256}=v"}, "metadata"),
        ("resize", {}, "flavor"),
        ("resize", {"flavor": "1"}, "flavor"),
        ("resize", {"flavor": "nowhere"}, "flavor"),
        ("rebuild", {"image": "00000000-0000-4000-8000-000000000000", "key_name": "="}, "image"),
        ("image", {"name": ""}, "name"),
        ("backup", {"name": "x", "backup_type": "daily", "rotation": "0"}, "rotation"),
        ("rescue", {"image": "00000000-0000-4000-8000-000000000000"}, "image"),
        ("password", {"password": "a", "again": "b"}, "again"),
        ("interface", {"target": "network:00000000-0000-4000-8000-000000000000"}, "target"),
        ("interface", {"target": "network:<net>", "fixed_ip": "192.0.2.1"}, "fixed_ip"),
        ("lock", {"reason": "x" * 256}, "reason"),
    ],
)
def test_wrong_input_is_reported_at_its_field(
    at_alice: Client, cloud: Cloud, web: Instance, dialog: str, typed: dict[str, str], field: str
) -> None:
    typed = {name: value.replace("<net>", str(cloud.network.id)) for name, value in typed.items()}
    answer = at_alice.post(f"/instances/{web.id}/{dialog}/", typed)
    assert answer.status_code == 422
    assert field in answer.context["form"].errors, answer.context["form"].errors
    for name, value in typed.items():
        assert answer.context["form"][name].value() == value


def test_a_resize_shows_what_fits_and_is_confirmed_by_the_first_button(
    at_alice: Client, alice: Person, cloud: Cloud, web: Instance
) -> None:
    form = at_alice.get(f"/instances/{web.id}/resize/").context["form"]
    sizes = {value: label.subject.reason for value, label in form.fields["flavor"].widget.choices}
    assert "1" not in sizes
    assert sizes["2"] == ""
    assert form["flavor"].value() == "2"
    at_alice.post(f"/instances/{web.id}/resize/", {"flavor": "2"})
    cloud.run()
    page = at_alice.get(f"/instances/{web.id}/").content.decode()
    assert 'data-testid="primary-confirm"' in page
    assert 'data-testid="action-revert"' in page
    assert 'data-testid="cannot-resize"' not in page
    for verb in ("confirm", "revert"):  # migrations are confirmed by the same buttons
        assert "resize or migration" in at_alice.get(f"/instances/{web.id}/{verb}/").content.decode()
    at_alice.post(f"/instances/{web.id}/confirm/")
    cloud.run()
    web.refresh_from_db()
    assert (web.flavor["flavorid"], state_of(web)) == ("2", ("active", None))


def test_a_size_that_the_host_or_the_quota_does_not_allow_says_why(
    at_alice: Client, alice: Person, cloud: Cloud, web: Instance
) -> None:
    def reason() -> str:
        form = at_alice.get(f"/instances/{web.id}/resize/").context["form"]
        return str({value: label.subject.reason for value, label in form.fields["flavor"].widget.choices}["2"])

    Host.objects.update(vcpus_total=1, cpu_allocation_ratio=1)
    assert reason() == "Its host does not have enough vCPUs: 4 requested, at most 1 free."
    refused = at_alice.post(f"/instances/{web.id}/resize/", {"flavor": "2"}, follow=True).content.decode()
    assert "No host has capacity" in refused
    QuotaLimit.objects.create(project_id=alice.project_id, resource="cores", limit=3)
    assert reason() == "Over quota: 2 vCPUs left, 3 more needed."


def test_a_rebuild_keeps_or_changes_the_key(at_alice: Client, cloud: Cloud, web: Instance) -> None:
    at_alice.post("/key-pairs/create/", {"name": "desk", "how": "make"})
    for key, kept in (("=", None), ("desk", "desk"), ("", None)):
        answer = at_alice.post(f"/instances/{web.id}/rebuild/", {"image": str(cloud.image.id), "key_name": key})
        assert answer.status_code == 303
        assert state_of(web)[1] == "rebuilding"
        cloud.run()
        web.refresh_from_db()
        assert web.key_name == kept


def test_images_and_backups_are_created(at_alice: Client, cloud: Cloud, web: Instance) -> None:
    at_alice.post(f"/instances/{web.id}/image/", {"name": "of web"})
    cloud.run()
    at_alice.post(f"/instances/{web.id}/backup/", {"name": "b", "backup_type": "daily", "rotation": "2"})
    cloud.run()
    assert set(Image.objects.exclude(name="small").values_list("name", flat=True)) == {"of web", "b"}


def test_rescue_and_back(at_alice: Client, cloud: Cloud, web: Instance) -> None:
    at_alice.post(f"/instances/{web.id}/rescue/", {"image": "", "password": "s3cret"})
    cloud.run()
    assert state_of(web) == ("rescued", None)
    assert 'data-testid="primary-unrescue"' in at_alice.get(f"/instances/{web.id}/").content.decode()


def test_a_lock_has_a_reason_that_all_see(at_alice: Client, signed_in: SignedIn, bob: Person, web: Instance) -> None:
    at_alice.post(f"/instances/{web.id}/lock/", {"reason": "the <b>demo</b>"})
    page = signed_in(bob).get(f"/instances/{web.id}/settings/").content.decode()
    assert "the &lt;b&gt;demo&lt;/b&gt;" in page


def test_interfaces_are_attached_and_detached(at_alice: Client, alice: Person, cloud: Cloud, web: Instance) -> None:
    net = network.create_network(alice.project_id, "back")
    network.create_subnet(net, "10.77.0.0/24")
    free = network.create_port(alice.project_id, net)
    form = at_alice.get(f"/instances/{web.id}/interface/").context["form"]
    targets = {value for value, _ in form.fields["target"].widget.choices}
    assert {f"network:{net.id}", f"port:{free.id}"} <= targets
    at_alice.post(f"/instances/{web.id}/interface/", {"target": f"network:{net.id}", "fixed_ip": "10.77.0.9"})
    at_alice.post(f"/instances/{web.id}/interface/", {"target": f"port:{free.id}"})
    cloud.run()
    assert Port.objects.filter(device_id=web.id, network=net).count() == 2
    to = f"/instances/{web.id}/interface/{free.id}/detach/"
    assert to in at_alice.get(f"/instances/{web.id}/network/").content.decode()
    assert "Detach 10.77.0." in at_alice.get(to).content.decode()
    assert at_alice.post(to)["Location"] == f"/instances/{web.id}/network/"
    cloud.run()
    assert guest_ports().filter(device_id=web.id).count() == 2


def test_an_operator_resets_a_state(signed_in: SignedIn, operator: Person, web: Instance) -> None:
    client = signed_in(operator)
    assert client.post(f"/instances/{web.id}/reset-state/", {"state": "error"}).status_code == 303
    assert state_of(web) == ("error", None)
    assert "This instance could not be built" not in client.get(f"/instances/{web.id}/").content.decode()


def test_an_offloaded_instance_is_unshelved_in_a_zone(
    at_alice: Client, alice: Person, cloud: Cloud, web: Instance
) -> None:
    assert "zone" not in at_alice.get(f"/instances/{web.id}/unshelve/").context["form"].fields
    offloaded(alice, cloud, web)
    form = at_alice.get(f"/instances/{web.id}/unshelve/").context["form"]
    assert "host" not in form.fields
    refused = at_alice.post(f"/instances/{web.id}/unshelve/", {"zone": "zone:nowhere"})
    assert "zone" in refused.context["form"].errors
    assert at_alice.post(f"/instances/{web.id}/unshelve/", {"zone": "any"}).status_code == 303
    cloud.run()
    assert state_of(web) == ("active", None)


def test_the_deletion_says_which_volumes_go_with_the_instance(
    signed_in: SignedIn, alice: Person, web: Instance
) -> None:
    at_alice, url = signed_in(alice), f"/instances/{web.id}/delete/"
    disk = {"instance": web, "source_type": "blank", "destination_type": "volume"}
    assert "volume" not in at_alice.get(url, headers=HTMX).content.decode()
    BlockDevice.objects.create(**disk, delete_on_termination=True)
    BlockDevice.objects.create(**disk, delete_on_termination=True)
    root = BlockDevice.objects.create(**disk)
    question = at_alice.get(url, headers=HTMX).content.decode()
    assert "its disk is removed. This cannot be undone. 2 volumes are deleted with it. 1 volume is kept." in question
    BlockDevice.objects.filter(id=root.id).update(boot_index=0)
    question = at_alice.get(url, headers=HTMX).content.decode()
    assert "The guest is stopped. This cannot be undone. 2 volumes are deleted with it. 1 volume is kept." in question
