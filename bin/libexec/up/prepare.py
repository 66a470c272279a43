"""The steps before the services start: guest image, database, static files and seed data. A step does nothing if its
result is up to date.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from up import kept
from up.data_folder import DataFolder, fingerprint
from up.outside import Network, Outside
from up.places import Places
from up.programs import BOOTSTRAP, CHECKOUT, Hosts, environment, manage, tool
from up.run_as import RunAs

GUEST_IMAGE = "guest/novella-guest.qcow2"
PACKAGE_LISTS = Path("/var/lib/apt/lists")
LAST_LINES = 15
INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def delayed_signals() -> Iterator[None]:
    """Delay signals that interrupt this program until the end of the block; then raise KeyboardInterrupt if one has
    arrived.

    So a process that is started in the block is known before the interruption, and can be killed.
    """
    held = [each for each in INTERRUPTING if signal.getsignal(each) is signal.default_int_handler]
    came: list[int] = []
    for each in held:
        signal.signal(each, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for each in held:
            signal.signal(each, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


class PreparationError(Exception):
    """A step failed. The message is a sentence, followed by the program's last output if there is any."""


@dataclass
class Progress:
    """Prints a numbered line for each step, with the time it took."""

    number: int
    total: int
    _began: float = field(default=0.0, repr=False)
    _open: bool = field(default=False, repr=False)

    def begin(self, title: str) -> None:
        self.number += 1
        self._began = time.monotonic()
        self._open = True
        print(f"[{self.number}/{self.total}] {title} … ", end="", flush=True)

    def detail(self, text: str) -> None:
        print(f"{text} … ", end="", flush=True)

    def say(self, text: str) -> None:
        """Print a separate line, even if the line of a step is not complete."""
        if self._open:
            print(flush=True)
            self._open = False
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(text, flush=True)

    def done(self, result: str = "ok") -> None:
        self._open = False
        print(f"{result} ({time.monotonic() - self._began:.1f} s)", flush=True)

    def step(self, title: str, work: Callable[[], str | None]) -> None:
        """Run one step; ``work`` may return a short result to print."""
        self.begin(title)
        try:
            result = work()
        except PreparationError:
            print("failed", flush=True)
            self._open = False
            raise
        self.done(result or "ok")


@dataclass(frozen=True)
class Preparation:
    """The steps for one data folder, port and set of hosts."""

    data: DataFolder
    port: int
    hosts: Hosts
    progress: Progress
    run_as: RunAs = field(default_factory=RunAs)
    """The account that creates the portal's files."""
    external_range: Network | None = None
    """The range of floating IPs of a new cloud; None: a range is chosen to which this machine has no route."""

    def run(self) -> None:
        """Run the steps in order; the last one needs the results of the others."""
        self.progress.step("Guest image", self.guest_image)
        self.progress.step("Database", self.database)
        self.progress.step("Static files", self.static_files)
        self.progress.step("Cloud", self.cloud)

    def switch(self) -> None:
        """Create the hosts' network namespaces if there are several hosts. A restart of the machine removes the
        namespaces.
        """
        if self.hosts.switched:
            self._call(tool("up.switch", "make", self.data.netns, str(len(self.hosts.names))), RunAs())

    # --- guest image -------------------------------------------------------------------------------------------

    def guest_image(self) -> str | None:
        """Build the image that real hosts boot; simulated hosts need none."""
        if self.hosts.simulated:
            return "not needed by simulated hosts"
        key = recipe_key()
        if (self.data.path / GUEST_IMAGE).exists() and self.data.done("guest-image", key):
            self._show_guest_image()
            return None
        for left in (self.data.path / "guest").glob(".guest-*"):  # by a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        offered = guest_key()
        folder = self.data.path / "guest"
        found = kept.find("guest", offered)
        if found is not None and not folder.exists():
            kept.copy(found, folder)
            self._show_guest_image()
            self.data.mark_done("guest-image", key)
            return None
        self.progress.detail("building it from the distribution's packages")
        command = tool("tools.guest_image", str(self.data.path / "guest"))
        try:
            self._call(command, RunAs())
        except PreparationError:  # a machine whose lists of packages are missing or old
            self._call(["apt-get", "-q", "update"], RunAs())
            self._call(command, RunAs())
        self._show_guest_image()
        self.data.mark_done("guest-image", key)
        with contextlib.suppress(OSError):
            kept.make("guest", offered, lambda new: Path(shutil.copytree(folder, new / "guest")))
        return None

    def _show_guest_image(self) -> None:
        """Let all accounts read the image, because the account that seeds the cloud has to. The image contains no
        secret.
        """
        image = self.data.path / GUEST_IMAGE
        image.parent.chmod(0o755)
        image.chmod(0o644)

    # --- Django ------------------------------------------------------------------------------------------------

    def database(self) -> None:
        key = database_key(self._database_url())
        if self._database_is_there() and self.data.done("database", key):
            return
        command = manage("migrate", "--no-input", "--verbosity", "0")
        if self._database_is_there() or not self._given("database", key, self.data.database, command):
            self._copy_database(key[:8])
            self._call(command)
        self.data.mark_done("database", key)

    def _copy_database(self, version: str) -> None:
        """Copy the SQLite database before it is migrated to another version, once for each version."""
        if not self._database_url() and self.data.database.exists():
            self._call(tool("up.database_copy", str(self.data.database), version))

    def _database_url(self) -> str:
        return os.environ.get("NOVELLA_DATABASE_URL", "")

    def _database_is_there(self) -> bool:
        return bool(self._database_url()) or self.data.database.exists()

    def static_files(self) -> None:
        own = [path for path in CHECKOUT.glob("static/**/*") if path.is_file()]
        finders = [CHECKOUT / "portal/common/front_end/npm_finder.py", CHECKOUT / "portal/common/front_end/bundles.py"]
        naming = [*CHECKOUT.glob("templates/**/*.html"), *CHECKOUT.glob("portal/dashboard/**/*.py")]
        naming.append(CHECKOUT / "portal/common/statuses.py")
        naming += CHECKOUT.glob("provisioning/batches/*.py")  # as in `portal.common.front_end.bundles`
        naming += CHECKOUT.glob("provisioning/compute/actions/*.py")
        locks = [CHECKOUT / "package-lock.json", CHECKOUT / "requirements/base.lock"]
        key = fingerprint([*own, *naming, *locks, *finders], "compressed")
        if (self.data.portal / "static").is_dir() and self.data.done("static", key):
            return
        command = manage("collectstatic", "--no-input", "--clear", "--verbosity", "0")
        folder = self.data.portal / "static"
        if folder.exists() or not self._given("static", key, folder, command):
            self._call(command)
        self.data.mark_done("static", key)

    def cloud(self) -> None:
        """Seed the cloud; bootstrap.json then describes its content."""
        image = "none" if self.hosts.simulated else str(self.data.path / GUEST_IMAGE)
        built = "none" if self.hosts.simulated else str(self.data.read_json("run/guest-image.stamp"))
        missing = [name for name in self.hosts.names if not (self.data.path / "hosts" / name).is_dir()]
        migrated = str(self.data.read_json("run/database.stamp"))
        key = fingerprint([*CHECKOUT.glob("portal/ops/**/*.py")], built, migrated, str(self.port), *self.hosts.names)
        if not missing and self.data.read_json(BOOTSTRAP) and self.data.done("cloud", key):
            return
        hosts = [word for name in self.hosts.names for word in ("--host", name)]
        simulated = ["--simulated"] if self.hosts.simulated else []
        outside = Outside.of(self.hosts, Places(self.data.netns), self.external_range).options()
        command = ("bootstrap", "--data", str(self.data.path), "--guest-image", image)
        self._call(manage(*command, *simulated, *outside, *hosts))
        self.data.mark_done("cloud", key)

    def _given(self, name: str, key: str, target: Path, command: list[str]) -> bool:
        """Copy the result of ``command`` to ``target``. Returns False if that fails: then the command must be run for
        this data folder.

        The result is the same for every new data folder. If it is not kept in the checkout yet, it is created in a
        temporary data folder by the caller's account: files that the portal's account has written are not kept. The
        portal's account copies it.
        """

        def make(folder: Path) -> Path:
            self._call(["env", f"NOVELLA_DATA={folder}", *command], RunAs())
            return folder / target.relative_to(self.data.path)

        try:
            found = kept.find(name, key) or kept.make(name, key, make)
            self._call(tool("up.kept", str(found), str(target)))
        except (OSError, PreparationError):
            return False
        return True

    def _call(self, command: list[str], run_as: RunAs | None = None) -> None:
        """Run a program to its end, as the portal's account unless specified otherwise, and keep its output in
        log/setup.log. Raises PreparationError.
        """
        run_as = run_as or self.run_as
        log = self.data.path / "log" / "setup.log"
        process = None
        try:
            with delayed_signals():
                process = subprocess.Popen(
                    run_as.command(command),
                    env=run_as.environment(environment(self.data, self.port)),
                    cwd=CHECKOUT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
            output, _ = process.communicate()
        except BaseException:
            if process is not None:
                with process:  # closes its output, and waits until it has ended
                    process.kill()
            raise
        with log.open("a") as file:
            file.write(f"$ {' '.join(command)}\n{output}\n")
        if process.returncode != 0:
            tail = "\n".join(f"    {line}" for line in output.splitlines()[-LAST_LINES:])
            raise PreparationError(f"{Path(command[0]).name} {command[1]} failed:\n{tail}\n    (all of it: {log})")


def database_key(url: str = "") -> str:
    """Return a checksum over the sources of a migrated database; ``url`` is the URL of a database that is not a SQLite
    file.
    """
    migrations = [path for app in ("provisioning", "portal") for path in CHECKOUT.glob(f"{app}/**/migrations/*.py")]
    return fingerprint([*migrations, CHECKOUT / "requirements/base.lock"], url)


def recipe_key() -> str:
    """Return a checksum over the recipe of the guest image."""
    recipe = CHECKOUT / "tools/guest_image"
    return fingerprint([*recipe.glob("*.py"), *recipe.glob("files/*")])


def guest_key() -> str:
    """Return a checksum over everything that a guest image built now depends on."""
    return fingerprint([], recipe_key(), *_package_lists())


def _package_lists() -> list[str]:
    """Return the names and times of the package lists, which change when other versions of packages become
    available.
    """
    return sorted(f"{path.name} {path.stat().st_mtime_ns}" for path in PACKAGE_LISTS.glob("*") if path.is_file())
