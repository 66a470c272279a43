"""Runs a module of this package inside Django, in ``manage.py shell`` with a separate database."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tools.bench.cloud import BenchError
from up.programs import CHECKOUT, LIBEXEC, manage


def migrate(folder: Path) -> None:
    _result(_start(folder, "migrate", "--verbosity", "0"))


def begin(folder: Path, call: str) -> subprocess.Popen[str]:
    """Start a call of a function of this package, as ``lists.main()``; `answer` waits for its end."""
    return run(folder, f"from tools.bench.in_django import {call.partition('.')[0]}; {call}")


def run(folder: Path, code: str) -> subprocess.Popen[str]:
    """Start a piece of code."""
    return _start(folder, "shell", "--verbosity", "0", "--command", code)


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the end and return the JSON of the last line. Raises BenchError if the call failed."""
    found: dict[str, Any] = json.loads(_result(process).splitlines()[-1])
    return found


def call(folder: Path, code: str) -> dict[str, Any]:
    return answer(begin(folder, code))


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    own = {"NOVELLA_DATA": str(folder), "NOVELLA_LOG_LEVEL": "ERROR", "PYTHONPATH": str(LIBEXEC)}
    return subprocess.Popen(
        manage(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env=os.environ | own,
    )


def _result(process: subprocess.Popen[str]) -> str:
    output, wrong = process.communicate()
    if process.returncode != 0:
        raise BenchError(f"inside Django: {wrong.strip()[-500:]}")
    return output
