"""Reading an index: its signature, its form, and the index that is kept when the next one is wrong."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from provisioning.catalogue import services
from provisioning.catalogue.errors import CatalogueError
from provisioning.catalogue.index import entries, reading, signatures
from provisioning.catalogue.index.reading import BUILT_IN, BUILT_IN_FILE
from provisioning.catalogue.models import CatalogueIndex
from provisioning.catalogue.selectors import catalogue_for
from provisioning.common.context import system_context
from tests.image.catalogue.publishing import Publisher, document, entry, serve_index
from tests.support.cast import Person
from tests.support.jobs import run_periodic
from tests.support.tables import each_row
from tests.support.web import Handler, Web


def names() -> list[str]:
    return [offer.entry.name for offer in catalogue_for(system_context()).offers]


def test_a_signed_folder_is_read(db: None, folder: Publisher) -> None:
    row = folder.publish(entry())
    assert (row.fault, row.key, names()) == ("", folder.trusted[0], ["Tiny Linux"])
    assert catalogue_for(system_context()).name == "Test images"


def test_a_signed_site_is_read(db: None, folder: Publisher, site: Web) -> None:
    serve_index(site, folder, document(entry()))
    assert services.refresh().fault == ""
    offer = catalogue_for(system_context()).offers[0]
    assert offer.entry.file == site.url("/catalogue/tiny.qcow2"), "a file beside the index has its address"


def other_key(publisher: Publisher) -> None:
    publisher.write(document(entry()), key=signatures.new_key())


def changed(publisher: Publisher) -> None:
    publisher.write(document(entry()))
    (publisher.folder / "index.json").write_bytes(document(entry(name="Evil Linux")))


def cut(publisher: Publisher) -> None:
    content = document(entry())
    publisher.write(content[: len(content) // 2])


def large(publisher: Publisher) -> None:
    publisher.write(document(entry(), name="x" * (entries.LARGEST + 1)))


def unsigned(publisher: Publisher) -> None:
    (publisher.folder / "index.json.sig").write_text("")


def missing(publisher: Publisher) -> None:
    (publisher.folder / "index.json").unlink()


def older(publisher: Publisher) -> None:
    publisher.write(document(entry(name="Old Linux"), updated="2025-12-31T23:59:59Z"))


def forged(publisher: Publisher) -> None:
    key, signature = publisher.trusted[0], base64.b64encode(bytes(64)).decode()
    (publisher.folder / "index.json.sig").write_text(f"{key} {signature}\n")


@each_row(
    "damage, reason",
    [
        (other_key, "not signed by a key"),
        (changed, "signature of the index is wrong"),
        (forged, "signature of the index is wrong"),
        (cut, "invalid"),
        (large, "larger than"),
        (unsigned, "is empty"),
        (missing, "cannot be read"),
        (older, "older than the one in use"),
    ],
)
def test_a_wrong_index_leaves_the_last_good_one(db: None, folder: Publisher, damage: Any, reason: str) -> None:
    folder.publish(entry())
    damage(folder)
    row = services.refresh()
    assert reason in row.fault
    assert names() == ["Tiny Linux"]
    folder.publish(entry(name="Better Linux"))
    assert (CatalogueIndex.objects.get().fault, names()) == ("", ["Better Linux"])


def test_nothing_is_trusted_without_a_key(db: None, folder: Publisher, settings: Settings) -> None:
    folder.publish(entry())
    settings.CATALOGUE_KEYS = []
    assert names() == [], "a key that is no longer trusted takes its index with it"
    assert "No key is trusted" in services.refresh().fault


def test_an_index_of_another_source_is_not_used(db: None, folder: Publisher, settings: Settings) -> None:
    folder.publish(entry())
    settings.CATALOGUE = str(folder.folder / "elsewhere")
    services.refresh()
    assert (CatalogueIndex.objects.count(), names()) == (1, [])


def test_two_keys_can_sign_while_keys_change(db: None, folder: Publisher, settings: Settings) -> None:
    content, old = document(entry()), signatures.new_key()
    (folder.folder / "index.json").write_bytes(content)
    lines = signatures.sign(content, old) + signatures.sign(content, folder.key)
    (folder.folder / "index.json.sig").write_text(lines)
    assert services.refresh().fault == ""
    settings.CATALOGUE_KEYS = [signatures.public_key(old)]
    assert services.refresh().fault == ""


def test_the_built_in_index_is_valid(db: None, settings: Settings) -> None:
    settings.CATALOGUE = BUILT_IN
    assert services.refresh().fault == ""
    read = entries.read(BUILT_IN_FILE.read_bytes())
    assert {each.distro for each in read.images} >= {
        *("debian", "ubuntu", "almalinux", "rocky", "fedora", "opensuse", "freebsd", "cirros"),
    }
    assert all(each.user and each.min_disk and each.min_ram for each in read.images)
    assert all(each.file.startswith("https://") for each in read.images)


def test_the_catalogue_can_be_switched_off(db: None, settings: Settings, folder: Publisher) -> None:
    folder.publish(entry())
    settings.CATALOGUE = "none"
    run_periodic("catalogue.refresh")
    assert (catalogue_for(system_context()).enabled, names()) == (False, [])


# ----- the form of an index -------------------------------------------------------------------------------------------

HEX = "0" * 64


@each_row(
    "values",
    [
        {"id": ""},
        {"id": "../x"},
        {"id": "x\n"},
        {"name": ""},
        {"name": "a\u202eb\x1b[0m"},
        {"name": "x" * 101},
        {"version": "1 0"},
        {"user": "root; rm -rf /"},
        {"architecture": "z80"},
        {"disk_format": "iso"},
        {"file": "../../etc/passwd"},
        {"file": "/etc/passwd"},
        {"file": ".hidden"},
        {"file": "file:///etc/passwd"},
        {"file": "https://me:secret@example.org/x"},
        {"checksum": {"algorithm": "md5", "value": "0" * 32}},
        {"checksum": {"algorithm": "sha256", "value": "0" * 63}},
        {"checksum": {"algorithm": "sha256"}},
        {"checksum": {"algorithm": "sha256", "value": HEX, "file": "https://example.org/SUMS"}},
        {"checksum": {"algorithm": "sha256", "file": "http://example.org/SUMS"}},
        {"min_disk": -1},
        {"min_ram": "64"},
        {"size": 0},
        {"compression": "zip"},
        {"properties": {"os_hidden": "true"}},
        {"properties": {"owner": "me"}},
        {"properties": {"hw_disk_bus": 1}},
        {"unknown": 1},
        {"mark": "abc"},
    ],
)
def test_a_malformed_entry_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(CatalogueError):
        entries.read(document(entry(**values)))


@each_row("content", [b"", b"[]", b"{", b"\xff", b"null", document(entry(), entry()), document(more=1)])
def test_a_malformed_document_is_refused(content: bytes) -> None:
    with pytest.raises(CatalogueError):
        entries.read(content)


def test_the_schema_describes_the_index() -> None:
    assert {"format", "name", "updated", "images"} <= set(json.dumps(entries.schema()).replace('"', " ").split())


@each_row(
    "name, value",
    [("NOVELLA_CATALOGUE", "somewhere"), ("NOVELLA_CATALOGUE_KEYS", "c2hvcnQ="), ("NOVELLA_CATALOGUE_KEYS", "!")],
)
def test_wrong_settings_stop_the_start(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    import importlib  # noqa: PLC0415

    from provisioning.catalogue import settings as module  # noqa: PLC0415

    monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured):
        importlib.reload(module)


# ----- reading it again -----------------------------------------------------------------------------------------------


def test_an_address_is_asked_at_its_interval_and_sooner_after_a_failure(
    db: None, folder: Publisher, site: Web, time_machine: Any
) -> None:
    time_machine.move_to("2026-06-01T12:00:00Z", tick=False)
    run_periodic("catalogue.refresh")
    assert "HTTP 404" in CatalogueIndex.objects.get().fault
    before = len(site.asked)
    run_periodic("catalogue.refresh")
    assert len(site.asked) == before
    serve_index(site, folder, document(entry()))
    time_machine.move_to("2026-06-01T12:10:00Z", tick=False)
    run_periodic("catalogue.refresh")
    assert (CatalogueIndex.objects.get().fault, names()) == ("", ["Tiny Linux"])
    before = len(site.asked)
    time_machine.move_to("2026-06-01T18:09:00Z", tick=False)
    run_periodic("catalogue.refresh")
    assert len(site.asked) == before
    time_machine.move_to("2026-06-01T18:10:00Z", tick=False)
    run_periodic("catalogue.refresh")
    assert len(site.asked) == before + 2


def test_a_site_that_is_too_large_or_inside_the_cloud_is_refused(
    db: None, folder: Publisher, site: Web, settings: Settings
) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(bytes(1 << 16))

    site.answers["/catalogue/index.json"] = endless
    assert "larger than" in services.refresh().fault
    site.redirect("/catalogue/index.json", "http://169.254.169.254/latest/meta-data/")
    assert "inside this cloud" in services.refresh().fault
    settings.IMPORT_ALLOWED_NETWORKS = []
    assert "inside this cloud" in services.refresh().fault


def test_a_site_that_drips_is_left(db: None, folder: Publisher, site: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not over.wait(0.05):
            handler.wfile.write(b" ")

    site.answers["/catalogue/index.json"] = drip
    monkeypatch.setattr(reading, "TIMEOUT", 0.2)
    assert "too slow" in services.refresh().fault
    over.set()


def test_a_reader_sees_why_it_cannot_be_read(alice: Person, folder: Publisher) -> None:
    folder.publish(entry())
    unsigned(folder)
    services.refresh()
    assert catalogue_for(alice.context).fault
