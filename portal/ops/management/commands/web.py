"""``manage.py web``: the web processes of one port."""

import argparse
import socket
import sys
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import get_resolver

from portal.web.loader import Loader, listen
from portal.web.master import RESUME, State
from provisioning.common.processes.before_fork import in_child
from provisioning.identity.encryption import key_records

APPLICATION = "portal.asgi:application"


class Command(BaseCommand):
    """Runs until SIGTERM or SIGINT."""

    help = "Serve pages, APIs and WebSockets."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-b", "--bind", default="127.0.0.1", help="the address to listen on")
        parser.add_argument("-p", "--port", type=int, default=settings.PORT, help="the port to listen on")
        parser.add_argument("--processes", type=int, default=settings.WEB_PROCESSES, help="how many processes serve it")
        parser.add_argument(
            "--proxy-headers", action="store_true", help="read the client's address from X-Forwarded-For"
        )
        parser.add_argument("--access-log", metavar="FILE", help="where to write a line for each request; - for stdout")
        parser.add_argument("--application", default=APPLICATION, help="module:name of the served application")
        parser.add_argument(RESUME, type=State.read, help=argparse.SUPPRESS)  # passed by the master at a restart

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.ROLE != "web":
            raise CommandError("Set NOVELLA_ROLE=web: it determines how database connections are kept.")
        if not 1 <= options["processes"] <= settings.MOST_WEB_PROCESSES:
            raise CommandError(f"--processes must be from 1 to {settings.MOST_WEB_PROCESSES}.")
        daphne = ["--proxy-headers"] if options["proxy_headers"] else []
        daphne += ["--access-log", options["access_log"]] if options["access_log"] else []
        resumed: State | None = options["resume"]
        if resumed is None and (problem := in_child(key_records.agree_if_possible)):
            raise CommandError(problem)
        try:
            listening = socket.socket(fileno=resumed.listening) if resumed else listen(options["bind"], options["port"])
        except OSError as error:
            raise CommandError(f"{options['bind']} port {options['port']}: {error.strerror}.") from error
        _preload()
        module = import_module(options["application"].partition(":")[0])
        get_resolver()._populate()  # otherwise each process does it at its first request
        sys.exit(Loader(listening, options["processes"], resumed).run(options["application"], daphne, module.install))


def _preload() -> None:
    """Import the modules that every process needs besides the application, and that open no resources."""
    from daphne import http_protocol, ws_protocol  # noqa: F401, PLC0415 - only this command needs them
    from django.db.models.sql import compiler  # noqa: F401, PLC0415
    from twisted.internet import asyncioreactor, endpoints  # noqa: F401, PLC0415
