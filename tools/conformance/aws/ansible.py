"""bin/conformance ansible-aws: runs a playbook of amazon.aws, again without changes, and removes its resources."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.conformance.aws import account
from tools.conformance.aws.account import Account
from tools.conformance.aws.steps import Step, run
from up.programs import CHECKOUT

PROGRAMS = CHECKOUT / ".venv/ansible/bin"
PLAYBOOKS = Path(__file__).parent
_RECAP = re.compile(r"changed=(\d+)")


def changed(expected: Callable[[int], bool], sentence: str) -> Callable[[str], str]:
    """Return a function that checks the number of changes in Ansible's recap."""

    def check(output: str) -> str:
        numbers = [int(number) for number in _RECAP.findall(output)]
        return "" if numbers and expected(numbers[-1]) else f"{sentence}, and {numbers or 'nothing'} changed"

    return check


def check(to: Account, folder: Path) -> list[str]:
    """Run the playbooks twice each, and return the errors."""
    variables = {
        "ansible_python_interpreter": str(CHECKOUT / ".venv/bin/python"),
        "image_name": to.image,
        "instance_type": to.types[0],
        "root_size": to.root_size,
        "public_key": public_key(folder),
    }

    def play(name: str) -> list[str]:
        program = str(PROGRAMS / "ansible-playbook")
        return [program, "-i", "localhost,", "-c", "local", "-e", json.dumps(variables), str(PLAYBOOKS / name)]

    nothing = changed(lambda number: number == 0, "a second run changes nothing")
    steps = [
        Step("run", play("site.yml"), wrong=changed(lambda number: number > 0, "the first run creates everything")),
        Step("run again", play("site.yml"), wrong=nothing),
        Step("remove", play("remove.yml"), wrong=changed(lambda number: number > 0, "everything is removed")),
        Step("remove again", play("remove.yml"), wrong=nothing),
    ]
    settings = {"ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    return run(steps, folder, to.variables(folder) | settings)


def _more(parser: argparse.ArgumentParser) -> None:
    del parser


def _check(_: argparse.Namespace) -> None:
    if not (PROGRAMS / "ansible-playbook").exists():
        raise BenchError("Ansible is not installed: bin/test --install does that")


def _run(to: Account, folder: Path, _: argparse.Namespace) -> list[str]:
    return check(to, folder)


def public_key(folder: Path) -> str:
    """Create an SSH key pair; write its public key to the folder and return it."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only a run needs it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    encoding, shape = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    text = Ed25519PrivateKey.generate().public_key().public_bytes(encoding, shape).decode()
    (folder / "key.pub").write_text(f"{text}\n")
    return text


def main(arguments: Sequence[str]) -> int:
    return account.main("bin/conformance ansible-aws", str(__doc__), arguments, _more, _check, _run)
