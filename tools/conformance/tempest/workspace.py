"""Tempest in its own environment and workspace: lists its tests, runs some of them, and returns the results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.conformance.results import Result, Verdict

READER = Path(__file__).with_name("subunit_rows.py")


class Tempest:
    """A new workspace; ``environment`` is a virtual environment in which tempest is installed."""

    def __init__(self, environment: Path, workspace: Path) -> None:
        self._programs, self.workspace = environment / "bin", workspace
        self._home = workspace.with_name("home")  # tempest keeps a register of its workspaces there
        shutil.rmtree(workspace, ignore_errors=True)
        self._home.mkdir(parents=True, exist_ok=True)
        self._configuration = workspace / "etc/tempest.conf"
        shutil.rmtree(self._home / ".tempest", ignore_errors=True)
        self._run("tempest", "init", "--name", workspace.name, str(workspace))

    def configure(self, text: str) -> None:
        """Write tempest.conf, readable only by its owner because it contains the administrator's password."""
        self._configuration.parent.mkdir(exist_ok=True)
        self._configuration.unlink(missing_ok=True)
        self._configuration.touch(mode=0o600)
        self._configuration.write_text(text)

    @property
    def version(self) -> str:
        return self._run("tempest", "--version").stdout.split()[-1]

    def tests(self) -> list[str]:
        """Return the names of all tests with their attributes."""
        command = ("tempest", "run", "--list-tests", "--config-file", str(self._configuration))
        listed = self._run(*command, folder=self.workspace).stdout
        return [line for line in listed.splitlines() if line.startswith("tempest.")]

    def run(self, tests: Sequence[str], workers: int) -> list[Result]:
        """Run these tests, ``workers`` at a time, and return the result of each. The output is in ``run.log``."""
        wanted = self.workspace / "tests.txt"
        wanted.write_text("\n".join(tests) + "\n")
        command = [str(self._programs / "tempest"), "run", "--config-file", str(self._configuration)]
        command += ["--load-list", str(wanted), "--concurrency", str(workers)]
        with (self.workspace / "run.log").open("w") as log:
            done = subprocess.run(
                command, cwd=self.workspace, stdout=log, stderr=log, env=self._environment(), check=False
            )
        if done.returncode not in {0, 1}:
            raise BenchError(f"tempest ended with {done.returncode}; see {log.name}")
        return self._results()

    def _results(self) -> list[Result]:
        stream = subprocess.run(
            [str(self._programs / "stestr"), "last", "--subunit"],
            cwd=self.workspace, capture_output=True, env=self._environment(), check=False,
        )  # fmt: skip
        read = subprocess.run(
            [str(self._programs / "python"), str(READER)], input=stream.stdout, capture_output=True, check=False
        )
        if read.returncode:
            raise BenchError(f"the suite's stream cannot be read: {read.stderr.decode()[-300:]}")
        lines = [json.loads(line) for line in read.stdout.splitlines()]
        return [Result(**line | {"verdict": Verdict(line["verdict"])}) for line in lines]

    def _run(self, program: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=folder or self._home, capture_output=True, text=True, env=self._environment(), check=False,
        )  # fmt: skip
        if done.returncode:
            raise BenchError(f"{program} {arguments[0]}: {(done.stderr or done.stdout).strip()[-500:]}")
        return done

    def _environment(self) -> dict[str, str]:
        """Return this process's environment without variables that would select another cloud or configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "TEMPEST_", "PYTHON"))}
        return kept | {"HOME": str(self._home)}
