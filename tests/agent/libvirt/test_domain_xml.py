"""The domain XML, compared with files that a person has read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import FlavorRef, InstanceSpec
from compute_agent.virt.libvirt.domain_xml import NAMESPACE, VirtType, clean, domain_xml, read_mark
from compute_agent.virt.libvirt.paths import HostPaths
from tests.agent.cast import make_spec

GOLDEN = Path(__file__).parent / "golden"
UUID = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
PATHS = HostPaths(Path("/srv/novella")).instance(UUID)


def large(spec: InstanceSpec) -> InstanceSpec:
    """Two interfaces and every disk a flavor can have."""
    second = make_spec(number=2).ports[0]
    network = replace(second.network, bridge="br-other", mtu=9000)
    flavor = FlavorRef(name="m1.large", vcpus=4, memory_mb=8192, root_gb=80, ephemeral_gb=20, swap_mb=512)
    return replace(spec, flavor=flavor, ports=[*spec.ports, replace(second, network=network)])


def hostile(spec: InstanceSpec) -> InstanceSpec:
    """Names that try to leave their place."""
    name = 'a</title><devices/>\x00\x1b[2J\n"&\ufffe🙂'
    return replace(spec, name=name, created_at="2026-10-01T12:00:00Z")


@pytest.mark.parametrize(
    ("golden", "spec", "virt_type"),
    [
        ("small-emulated.xml", make_spec(UUID), "qemu"),
        ("large-kvm.xml", large(make_spec(UUID)), "kvm"),
        ("hostile-name.xml", hostile(make_spec(UUID)), "qemu"),
    ],
)
def test_the_xml_is_the_golden_one(golden: str, spec: InstanceSpec, virt_type: VirtType) -> None:
    assert domain_xml(spec, 3, PATHS, virt_type) == (GOLDEN / golden).read_text()


def parsed(spec: InstanceSpec, attempt: int) -> ET.Element:
    return ET.fromstring(domain_xml(spec, attempt, PATHS, "qemu"))  # noqa: S314 - our own


def test_a_hostile_name_stays_text() -> None:
    spec = hostile(make_spec(UUID))
    domain = parsed(spec, 3)
    assert domain.findtext("title") == 'a</title><devices/>\ufffd\ufffd[2J "&\ufffd🙂'
    assert len(domain.findall("devices")) == 1


def test_the_mark_is_read_as_it_was_written() -> None:
    domain = parsed(make_spec(UUID), 7)
    element = domain.find(f"metadata/{{{NAMESPACE}}}instance")
    assert element is not None
    mark = read_mark(UUID, ET.tostring(element, encoding="unicode"))
    assert (mark.uuid, mark.attempt) == (UUID, 7)


@pytest.mark.parametrize("metadata", ["", "<a/>", "<a attempt='x'/>"])
def test_another_ones_metadata_is_no_mark(metadata: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_mark(UUID, metadata)


def test_an_empty_name_still_has_a_title() -> None:
    spec = replace(make_spec(UUID), name="")
    assert "<title>web-1</title>" in domain_xml(spec, 1, PATHS, "qemu")
    assert clean("a\r\n\tb") == "a b"


@pytest.mark.parametrize("bad", ["../../etc", "0a1b2c3d", ""])
def test_only_a_uuid_becomes_a_folder(bad: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        HostPaths(Path("/srv/novella")).instance(bad)


def test_what_qemu_opens_has_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_agent.virt.libvirt.paths.RUN", tmp_path / "run")
    (tmp_path / "run").mkdir()
    paths = HostPaths(tmp_path / ("x" * 60))
    for _ in range(2):
        paths.prepare()
    assert not paths.mounted
    instance = paths.instance(UUID)
    assert instance.root_disk.parent == paths.short / "instances" / UUID
    assert instance.folder.resolve() == instance.real == paths.instances / UUID
    assert len(str(HostPaths(paths.state).instance(UUID).vnc_socket)) - len(str(tmp_path)) < 100
    image = paths.state / "images/_base/sha256-00"
    image.touch()
    assert paths.lend(image).resolve() == image
    assert paths.visible(Path("/elsewhere/copy")) == Path("/elsewhere/copy")
    paths.remove_short()
    assert list((tmp_path / "run").iterdir()) == []
    assert image.exists()
