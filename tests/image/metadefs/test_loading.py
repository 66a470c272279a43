"""The namespaces that come with the cloud: loaded once each, and an operator's from then on."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from jsonschema import Draft202012Validator

from portal.api.image.metadefs.attributes import DEFINITIONS, PUBLISHED
from provisioning.compute.flavors import extra_specs
from provisioning.metadefs.models import MetadefNamespace, MetadefProperty
from provisioning.metadefs.services import loading
from provisioning.metadefs.wellknown import NAMESPACES as KNOWN
from provisioning.metadefs.wellknown import Type
from tests.image.metadefs.defining import NAMESPACES, define, listed
from tests.support.cast import Api, Person

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
FLAVOR, IMAGE = "OS::Nova::Flavor", "OS::Glance::Image"
PINNING = "OS::Compute::CPUPinning"


@pytest.mark.slow
def test_all_are_loaded_for_everybody(alice: Person) -> None:
    assert loading.load() == [each.name for each in KNOWN]
    assert set(listed(alice, "limit=1000")) == {each.name for each in KNOWN}
    shown = Api(alice).get(f"{NAMESPACES}/{PINNING}?resource_type={FLAVOR}").json()
    assert (shown["visibility"], shown["protected"], shown["owner"]) == ("public", True, "admin")
    assert shown["properties"]["hw:cpu_policy"]["enum"] == ["shared", "dedicated", "mixed"]
    quota = Api(alice).get(f"{NAMESPACES}/OS::Compute::Quota").json()
    assert {group["name"] for group in quota["objects"]} == {"CPU Limits", "Disk QoS", "Virtual Interface QoS"}


@pytest.mark.slow
def test_what_an_operator_made_of_them_stays(operator: Person) -> None:
    mine = define(operator, "OS::Compute::Quota", display_name="Mine")
    loading.load()
    api, changed = Api(operator), f"{NAMESPACES}/{PINNING}"
    assert api.put(changed, {"namespace": PINNING, "display_name": "Changed"}).status_code == 200
    gone = f"{NAMESPACES}/OS::Compute::TPM"
    assert api.put(gone, {"namespace": "OS::Compute::TPM"}).status_code == 200
    assert api.delete(gone).status_code == 204
    properties = MetadefProperty.objects.filter(name__in=["hw_disk_bus", "hw_video_model"])
    properties.filter(name="hw_disk_bus").update(schema={"description": "A launch with it is refused."})
    properties.filter(name="hw_video_model").update(schema={"description": "My own words."})
    assert loading.load() == []
    assert properties.get(name="hw_disk_bus").schema["enum"] == ["virtio", "scsi", "sata", "ide", "usb"]
    assert properties.get(name="hw_video_model").schema == {"description": "My own words."}
    assert (api.get(mine).json()["display_name"], api.get(changed).json()["display_name"]) == ("Mine", "Changed")
    assert api.get(gone).status_code == 404


@pytest.mark.slow
def test_the_command(operator: Person) -> None:
    output = StringIO()
    call_command("load_metadefs", stdout=output)
    assert f"Loaded {PINNING}." in output.getvalue()
    MetadefNamespace.objects.filter(namespace=PINNING).update(display_name="Changed")
    MetadefNamespace.objects.filter(namespace="OS::Compute::TPM").delete()
    call_command("load_metadefs", restore=[PINNING, "OS::Compute::TPM"], stdout=output)
    assert Api(operator).get(f"{NAMESPACES}/{PINNING}").json()["display_name"] == "CPU pinning"
    assert Api(operator).get(f"{NAMESPACES}/OS::Compute::TPM").status_code == 200
    with pytest.raises(CommandError, match="There is no built-in namespace Nothing"):
        call_command("load_metadefs", restore=["Nothing"], stdout=output)


@pytest.mark.slow
def test_they_fit_the_schemas(alice: Person) -> None:
    loading.load()
    schema = Draft202012Validator({**PUBLISHED["namespace"], "type": "object", "definitions": DEFINITIONS})
    for each in KNOWN:
        shown = Api(alice).get(f"{NAMESPACES}/{each.name}").json()
        assert [error.message for error in schema.iter_errors(shown)] == [], each.name


def test_flavors_take_what_they_say() -> None:
    """Each choice that is listed for flavors is one that the flavor's API takes."""
    for each in KNOWN:
        prefixes = [kind.prefix or "" for kind in each.types if kind.name == FLAVOR]
        groups = [each.properties, *(group.properties for group in each.groups)]
        for name, schema in ((name, schema) for group in groups for name, schema in group.items()):
            for prefix in prefixes:
                if prefix + name == "hw:cpu_mode":
                    continue  # Nova takes it of images only
                least = schema.get("minimum", 1)
                for value in schema.get("enum") or ["true" if schema["type"] == "boolean" else str(least)]:
                    if name == "mem_page_size":
                        value = "large"
                    extra_specs.check(prefix + name, value)


def test_names_are_reported_once() -> None:
    names = [each.name for each in KNOWN]
    assert len(names) == len(set(names))
    assert Type(IMAGE) in next(each for each in KNOWN if each.name == "OS::Compute::Hypervisor").types
