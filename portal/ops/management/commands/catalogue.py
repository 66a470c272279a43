"""``manage.py catalogue``: the image catalogue, and the tools to publish an index of one's own."""

import hashlib
import json
import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.ops.tables import table
from provisioning.catalogue import services
from provisioning.catalogue.index import entries, reading, signatures
from provisioning.catalogue.selectors import catalogue_for, current_index
from provisioning.catalogue.services.adding import add
from provisioning.common.context import RequestContext, system_context
from provisioning.common.errors import NovellaError
from provisioning.identity.models import Project
from provisioning.images.services.sources import PIECE

HEAD = ("id", "name", "version", "architecture", "state", "of version")


class Command(BaseCommand):
    """Shows the catalogue, reads it again, adds images, and checks and signs an index."""

    help = "Show the image catalogue, add an image, or check and sign an index."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the subcommands. The command without a subcommand shows the catalogue."""
        actions = parser.add_subparsers(dest="action", metavar="show, refresh, add, check, key, sign, schema")
        show = actions.add_parser("show", help="list the images of the catalogue")
        show.add_argument("--json", action="store_true", help="print the index, as a template for your own")
        actions.add_parser("refresh", help="read the configured index now")
        adding = actions.add_parser("add", help="create an image for all projects; a worker fetches it")
        adding.add_argument("image", help="id in the catalogue")
        adding.add_argument("--owner", metavar="PROJECT", default="admin", help="project that owns it (default: admin)")
        adding.add_argument("--private", action="store_true", help="for the owner only")
        checking = actions.add_parser("check", help="check signature, form and local files of an index")
        checking.add_argument("source", nargs="?", help="a folder or an address (default: NOVELLA_CATALOGUE)")
        key = actions.add_parser("key", help="create a private key, and print the public key")
        key.add_argument("file", type=Path, help="PEM file of the private key; an existing one is only read")
        sign = actions.add_parser("sign", help="sign the index.json of a folder")
        sign.add_argument("folder", type=Path)
        sign.add_argument("--key", type=Path, required=True, action="append", help="private key; may be repeated")
        actions.add_parser("schema", help="print the JSON schema of an index")

    def handle(self, *args: Any, **options: Any) -> None:
        """Carry out the subcommand. The exit status is 1 for an index that is not valid."""
        try:
            getattr(self, f"_{options['action'] or 'show'}")(options)
        except NovellaError as error:
            raise CommandError(error.message) from error
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}.") from error

    def _show(self, options: dict[str, Any]) -> None:
        if options.get("json"):
            _, known = current_index()
            if known is None:
                raise CommandError("There is no valid index. Run: manage.py catalogue refresh")
            self.stdout.write(_formatted(known))
            return
        catalogue = catalogue_for(system_context())
        rows = [
            (
                offer.entry.id,
                offer.entry.name,
                offer.entry.version,
                offer.entry.architecture,
                offer.state,
                offer.version,
            )
            for offer in catalogue.offers
        ]
        self.stdout.write("\n".join(table(HEAD, rows)) if rows else "The catalogue has no images.")
        if catalogue.fault:
            self.stderr.write(catalogue.fault)

    def _refresh(self, options: dict[str, Any]) -> None:
        row = services.refresh()
        if row.fault:
            raise CommandError(row.fault)
        self._show(options)

    def _add(self, options: dict[str, Any]) -> None:
        projects = Project.objects.filter(name=options["owner"])
        if len(projects) != 1:
            raise CommandError(f"There are {len(projects)} projects called {options['owner']}.")
        context = _in_project(projects[0])
        row = add(context, options["image"], for_all=not options["private"])
        self.stdout.write(f"Image {row.image_id} is being fetched.")

    def _check(self, options: dict[str, Any]) -> None:
        source = options["source"] or settings.CATALOGUE
        content, key = reading.signed_index(source)
        index = entries.read(content, source if reading.is_address(source) else "")
        faults = [] if reading.is_address(source) else list(_wrong_files(index, Path(source)))
        if faults:
            raise CommandError("\n".join(faults))
        self.stdout.write(f"{index.name}: {len(index.images)} images, {f'signed by {key}' if key else 'built-in'}.")

    def _key(self, options: dict[str, Any]) -> None:
        path: Path = options["file"]
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(signatures.new_key())
        self.stdout.write(signatures.public_key(path.read_bytes()))

    def _sign(self, options: dict[str, Any]) -> None:
        folder: Path = options["folder"]
        content = (folder / reading.INDEX).read_bytes()
        faults = list(_wrong_files(entries.read(content), folder))
        if faults:
            raise CommandError("\n".join(faults))
        lines = [signatures.sign(content, path.read_bytes()) for path in options["key"]]
        (folder / (reading.INDEX + reading.SUFFIX)).write_text("".join(lines))
        self.stdout.write(f"Signed. NOVELLA_CATALOGUE_KEYS={lines[0].partition(' ')[0]}")

    def _schema(self, _: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(entries.schema(), indent=2))


def _formatted(known: entries.Index) -> str:
    return msgspec.json.format(msgspec.json.encode(known)).decode()


def _in_project(project: Project) -> RequestContext:
    """Return the cloud's own context in a project."""
    return system_context().in_project(project.id)


def _wrong_files(index: entries.Index, folder: Path) -> list[str]:
    """Return sentences about files of the index that are in its folder, and differ from it or are missing."""
    faults = []
    for entry in index.images:
        if "://" in entry.file or not entry.checksum.value:
            continue
        path = folder / entry.file
        if not path.is_file():
            faults.append(f"{entry.id}: {path} is missing.")
        elif _digest(path, entry.checksum.algorithm) != entry.checksum.value:
            faults.append(
                f"{entry.id}: the {entry.checksum.algorithm} of {path} is {_digest(path, entry.checksum.algorithm)}."
            )
    return faults


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
