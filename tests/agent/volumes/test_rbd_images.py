"""Operations on a pool of a real Ceph: images, clones, snapshots, differences, and clients that are shut out."""

from __future__ import annotations

import contextlib
import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_agent.virt.processes.programs import run_program
from compute_agent.volumes.rbd.images import CephError, CephImages
from compute_agent.volumes.rbd.location import CephLocation, parse
from tests.support.ceph import CephForTests
from tools.ceph import Cluster

MIB = 1 << 20

pytestmark = pytest.mark.ceph


@pytest.fixture
def images(ceph: CephForTests) -> CephImages:
    return CephImages(CephLocation(ceph.pool, ceph.conf, ceph.client))


@pytest.fixture
def name(images: CephImages) -> Iterator[str]:
    """A prefix for a test's images, which are removed after it."""
    prefix = f"t{uuid.uuid4().hex[:8]}-"
    yield prefix
    for image in images.names():
        if image.startswith(prefix):
            images.remove(image)
    images.sweep([prefix])
    images.sweep([prefix])  # a parent once its clone is gone
    assert not [image for image in images.trash().values() if image.startswith(prefix)]


def qemu_io(images: CephImages, image: str, *commands: str, options: str = "") -> str:
    """Read or write an image as another client does; a pattern that is not there is an error."""
    location = images.location
    target = f"driver=rbd,pool={location.pool},image={image},conf={location.conf},user={location.client}{options}"
    words = [word for command in commands for word in ("-c", command)]
    output = run_program("qemu-io", "--image-opts", target, *words).decode()
    assert "Pattern verification failed" not in output, output
    return output


@pytest.mark.deep
def test_what_is_made_twice_is_made_once_and_what_is_gone_may_be_removed(images: CephImages, name: str) -> None:
    for _ in range(2):
        images.create(name + "a", 8 * MIB)
        images.snapshot(name + "a", "s")
        images.clone(name + "a", "s", name + "b")
        images.grow(name + "b", 16 * MIB)
    images.grow(name + "b", 4 * MIB)
    assert (images.size(name + "a"), images.size(name + "b")) == (8 * MIB, 16 * MIB)
    assert images.snapshots(name + "a") == ["s"]
    images.grow(name + "a", 9 * MIB)
    for _ in range(2):
        images.rename_snapshot(name + "a", "s", "a name: x")
    assert images.snapshots(name + "a") == ["a name: x"]
    assert images.all_snapshots()[name + "a"] == {"a name: x": 8 * MIB}
    with pytest.raises(CephError):
        images.rename_snapshot(name + "a", "s", "t")
    for _ in range(2):
        images.remove_snapshot(name + "a", "a name: x")
        images.remove(name + "a")
    assert images.size(name + "a") is None
    with pytest.raises(CephError):
        images.create("no/such/pool/x", MIB)


@pytest.mark.deep
def test_a_clone_outlives_snapshot_and_image_that_it_was_made_of(images: CephImages, name: str) -> None:
    images.create(name + "parent", 8 * MIB)
    qemu_io(images, name + "parent", "write -P 7 0 4M")
    images.snapshot(name + "parent", "s")
    qemu_io(images, name + "parent", "write -P 8 0 4M")
    images.clone(name + "parent", "s", name + "child")
    images.remove_snapshot(name + "parent", "s")
    images.remove(name + "parent")
    assert name + "parent" in images.trash().values()
    images.sweep([name])
    qemu_io(images, name + "child", "read -P 7 0 4M", "read -P 0 4M 4M")
    images.remove(name + "child")
    images.sweep([name])
    assert name + "parent" not in images.trash().values()


def test_a_rollback_gives_back_data_and_size(images: CephImages, name: str) -> None:
    images.create(name, 4 * MIB)
    qemu_io(images, name, "write -P 1 0 1M")
    images.snapshot(name, "s")
    images.grow(name, 8 * MIB)
    qemu_io(images, name, "write -P 2 0 8M")
    images.rollback(name, "s")
    assert images.size(name) == 4 * MIB
    qemu_io(images, name, "read -P 1 0 1M", "read -P 0 1M 3M")


@pytest.mark.deep
def test_a_chain_of_differences_makes_the_same_image(images: CephImages, name: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes(b"\1" * MIB + bytes(15 * MIB))
    images.import_file(raw, name + "from")
    images.create(name + "to", 16 * MIB)
    since = ""
    for number, pattern in enumerate((2, 3)):
        qemu_io(images, name + "from", f"write -P {pattern} {4 + 4 * number}M 1M")
        images.snapshot(name + "from", f"s{number}")
        images.export_diff(name + "from", f"s{number}", tmp_path / f"d{number}", since)
        since = f"s{number}"
    assert (tmp_path / "d1").stat().st_size < 2 * MIB, "only what has changed"
    for number in range(2):
        images.import_diff(tmp_path / f"d{number}", name + "to")
    qemu_io(images, name + "to", "read -P 1 0 1M", "read -P 2 4M 1M", "read -P 3 8M 1M", "read -P 0 9M 7M")


@pytest.mark.deep
def test_the_pool_has_one_id_and_a_size(images: CephImages) -> None:
    assert images.unfit() == ""
    assert images.pool_id() == images.pool_id() == str(uuid.UUID(images.pool_id()))
    capacity = images.capacity()
    assert 0 < capacity.free <= capacity.total
    elsewhere = CephImages(CephLocation("elsewhere", images.location.conf, images.location.client))
    with pytest.raises(CephError):
        elsewhere.pool_id()


@pytest.mark.deep
def test_a_pool_is_known_before_the_cluster_has_measured_it(images: CephImages, ceph: CephForTests) -> None:
    name = f"new-{uuid.uuid4().hex[:8]}"
    Cluster(ceph.folder).run("ceph", "osd", "pool", "create", name, "1")
    new = CephImages(CephLocation(name, ceph.conf, ceph.client))
    assert new.pool_id() != images.pool_id()


@contextlib.contextmanager
def held_open(images: CephImages, image: str) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who has written to an image and goes on."""
    place = images.location
    node = f"driver=rbd,pool={place.pool},image={image},conf={place.conf},user={place.client}"
    with subprocess.Popen(
        ["qemu-io", "--image-opts", node], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        try:
            other.stdin.write(b"write -P 5 0 1M\nflush\n")
            other.stdin.flush()
            other.stdout.readline()
            yield other
        finally:
            other.kill()


def test_the_one_who_had_it_open_never_writes_again(images: CephImages, name: str) -> None:
    images.create(name, 8 * MIB)
    with held_open(images, name) as other:
        assert len(images.watchers(name)) == 1
        assert len(images.fence(name)) == 1
        qemu_io(images, name, "write -P 6 0 1M")
        output, _ = other.communicate(b"write -P 7 0 1M\nflush\nquit\n", timeout=60)
        assert b"failed" in output
    qemu_io(images, name, "read -P 6 0 1M")


@pytest.mark.deep
def test_the_one_who_died_is_not_waited_for(images: CephImages, name: str) -> None:
    images.create(name, 8 * MIB)
    with held_open(images, name):
        pass
    images.fence(name)
    assert images.watchers(name) == []
    assert json.loads(images._rbd("lock", "ls", images._spec(name), "--format", "json")) == []


def test_where_a_pool_is(ceph: CephForTests, tmp_path: Path) -> None:
    assert parse("volumes") == CephLocation("volumes")
    location = parse(f"{ceph.pool}?conf={ceph.conf}&id=client.{ceph.client}")
    assert location == CephLocation(ceph.pool, ceph.conf, ceph.client)
    for wrong in ("", "a/b", "p?conf=relative", "p?id=a b", "p?user=x"):
        with pytest.raises(ValueError, match=r"\S"):
            parse(wrong)
    assert "missing" in CephImages(CephLocation("p", tmp_path / "none")).unfit()
