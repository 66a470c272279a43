"""The unmodified ``openstack`` command line, many commands in one run."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.support import openstack_program
from tests.support.one_machine import ENVIRONMENT, OneMachine

ANSWERING = ("list", "show", "create", "issue")


def batch(cloud: OneMachine, *commands: str, **environment: str) -> list[Any]:
    """Run commands in one run of the command line, as the administrator or as ``environment`` says.

    Returns what those that answer (list, show, create, issue) printed; each must succeed, and a failure is the only
    thing that the command line writes to its standard error.
    """
    done = _run(cloud, commands, environment)
    assert not done.stderr.strip(), done.stderr
    decoder, text, answers = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        if text[0] not in "[{":  # "Complete", after --wait
            text = text.partition("\n")[2].strip()
            continue
        answer, end = decoder.raw_decode(text)
        answers.append(answer)
        text = text[end:].strip()
    return answers


def refused(cloud: OneMachine, command: str, **environment: str) -> str:
    """Run one command that must fail; returns what it said."""
    done = _run(cloud, (command,), environment)
    assert done.returncode != 0, done.stdout
    return done.stderr


def _run(cloud: OneMachine, commands: tuple[str, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    chosen = environment or {"OS_CLOUD": "admin", "OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml")}
    lines = [f"{line} -f json" if " -f " not in line and _answers(line) else line for line in commands]
    return openstack_program.run((), ENVIRONMENT | chosen, "\n".join(lines) + "\n")


def _answers(line: str) -> bool:
    words = line.split(" --")[0].split()
    if words[1:2] == ["dump"]:
        return False
    return any(word in ANSWERING for word in words[:4])
