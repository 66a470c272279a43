"""``manage.py catalogue``: publishing an index of one's own, and adding from it."""

from __future__ import annotations

import json
import stat
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from provisioning.catalogue.index import entries
from provisioning.images.models import Image
from tests.image.catalogue.publishing import DATA, Publisher, document, entry
from tests.support.cast import Person
from tests.support.jobs import drain


def run(*arguments: object) -> str:
    out = StringIO()
    call_command("catalogue", *map(str, arguments), stdout=out, stderr=StringIO())
    return out.getvalue().strip()


def test_an_operator_publishes_an_index(db: None, tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "index.json").write_bytes(document(entry()))
    (tmp_path / "tiny.qcow2").write_bytes(DATA)
    public = run("key", tmp_path / "key.pem")
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert run("key", tmp_path / "key.pem") == public, "an existing key is kept"
    settings.CATALOGUE, settings.CATALOGUE_KEYS = str(tmp_path), [public]
    assert public in run("sign", tmp_path, "--key", tmp_path / "key.pem")
    assert public in run("check")
    assert "Tiny Linux" in run("refresh")
    assert entries.read(run("show", "--json").encode()).images[0].id == "tiny"
    json.loads(run("schema"))


def test_what_is_wrong_is_not_signed(tmp_path: Path, settings: Settings) -> None:
    run("key", tmp_path / "key.pem")
    sign = ("sign", tmp_path, "--key", tmp_path / "key.pem")
    for content, text in (
        (document(entry(user="")), "invalid user"),
        (document(entry()), "is missing"),
        (document(entry(file="index.json")), "the sha256 of"),
    ):
        (tmp_path / "index.json").write_bytes(content)
        with pytest.raises(CommandError, match=text):
            run(*sign)
    (tmp_path / "key.pem").write_bytes(b"nothing")
    (tmp_path / "index.json").write_bytes(document())
    with pytest.raises(CommandError, match="no Ed25519"):
        run(*sign)
    with pytest.raises(CommandError, match="No such file"):
        run("sign", tmp_path / "elsewhere", "--key", tmp_path / "key.pem")


def test_what_is_wrong_is_named_by_the_check(db: None, folder: Publisher) -> None:
    folder.write(document(entry(checksum={"algorithm": "sha256", "value": "0" * 64})))
    with pytest.raises(CommandError, match="the sha256 of"):
        run("check", folder.folder)
    (folder.folder / "index.json.sig").write_text("")
    with pytest.raises(CommandError, match="is empty"):
        run("check")
    with pytest.raises(CommandError, match="is empty"):
        run("refresh")


@pytest.mark.django_db(transaction=True)
def test_an_image_is_added_for_a_project(alice: Person, folder: Publisher) -> None:
    folder.publish(entry())
    name = alice.project.name
    assert str(Image.objects.count()) == "0"
    assert "is being fetched" in run("add", "tiny", "--owner", name)
    drain()
    image = Image.objects.get()
    assert (image.status, image.visibility, image.project_id) == ("active", "public", alice.project_id)
    with pytest.raises(CommandError, match="already added"):
        run("add", "tiny", "--owner", name, "--private")
    with pytest.raises(CommandError, match="0 projects"):
        run("add", "tiny", "--owner", "nobody")
