"""bin/conformance terraform-aws: applies, changes, imports and destroys with Terraform's provider aws; plans must be
empty.

Terraform or OpenTofu, and the provider hashicorp/aws must be installed on this machine: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.conformance.aws import account
from tools.conformance.aws.account import Account
from tools.conformance.aws.ansible import public_key
from tools.conformance.aws.steps import Step, run

PROVIDER = "hashicorp/aws"
MIRRORS = (
    "~/.terraform.d/plugins",
    "/usr/local/share/terraform/plugins",
    "/usr/share/terraform/plugins",
    "/opt/tf-plugins",
)
"""Folders in which Terraform searches for providers without a registry, and an additional one."""
IMPORTED = (
    "aws_vpc.net", "aws_subnet.net", "aws_internet_gateway.net", "aws_security_group.web", "aws_key_pair.key",
    "aws_instance.web", "aws_ebs_volume.data", "aws_eip.web",
)  # fmt: skip


def program() -> str:
    """Return the path of Terraform or OpenTofu. Raises BenchError."""
    found = next((path for name in ("terraform", "tofu") if (path := shutil.which(name))), None)
    if found is None:
        raise BenchError("there is no terraform and no tofu on this machine")
    return found


def mirror(folders: Sequence[str]) -> Path:
    """Return the first folder that contains the provider. Raises BenchError."""
    for folder in folders:
        path = Path(folder).expanduser()
        if next(path.glob(f"*/{PROVIDER}/*"), None) is not None:
            return path
    raise BenchError(f"there is no provider {PROVIDER} in {', '.join(folders)}: --plugins says where it is")


def planned_nothing(said: str) -> str:
    """Return an error message if the output of ``terraform plan -json`` contains changes."""
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    changes = [
        f"{line['change']['action']} {line['change']['resource']['addr']}"
        for line in lines
        if line.get("type") == "planned_change"
    ]
    return f"the plan is not empty: {', '.join(changes)}" if changes else ""


def ids(state: Path) -> dict[str, str]:
    """Return address → id of the resources in a state file."""
    kept = json.loads(state.read_text())
    managed = [each for each in kept["resources"] if each["mode"] == "managed"]
    return {f"{each['type']}.{each['name']}": each["instances"][0]["attributes"]["id"] for each in managed}


def before(terraform: str) -> list[Step]:
    """Return the steps from an empty folder to a changed, settled state."""
    return [
        Step("init", [terraform, "init", "-no-color", "-input=false"]),
        Step("apply", _apply(terraform, "first")),
        plan(terraform, "first"),
        Step("change", _apply(terraform, "second")),
        plan(terraform, "second"),
    ]


def imports(terraform: str, known: dict[str, str]) -> list[Step]:
    """Return the steps that remove resources from the state and import them again, with an empty plan afterwards."""
    steps = []
    for address in IMPORTED:
        steps.append(Step(f"forget {address}", [terraform, "state", "rm", "-no-color", address]))
        command = [terraform, "import", "-no-color", "-input=false", "-var=word=second", address, known[address]]
        steps.append(Step(f"import {address}", command))
    return [*steps, plan(terraform, "second")]


def plan(terraform: str, word: str) -> Step:
    command = [terraform, "plan", "-json", "-input=false", "-no-color", f"-var=word={word}"]
    return Step(f"plan after it ({word})", command, wrong=planned_nothing)


def _apply(terraform: str, word: str) -> list[str]:
    return [terraform, "apply", "-auto-approve", "-input=false", "-no-color", f"-var=word={word}"]


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plugins", metavar="FOLDER", help="where the provider is, laid out as a filesystem mirror")


def _folders(given: argparse.Namespace) -> list[str]:
    return [given.plugins] if given.plugins else list(MIRRORS)


def _check(given: argparse.Namespace) -> None:
    program()
    mirror(_folders(given))


def _run(to: Account, folder: Path, given: argparse.Namespace) -> list[str]:
    terraform = program()
    shutil.copy(Path(__file__).with_name("main.tf"), folder)
    configuration = folder / "terraform.rc"
    configuration.write_text(
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror(_folders(given))}"\n  }}\n}}\n'
    )
    given_to = {
        "url": to.url,
        "image": to.image,
        "small": to.types[0],
        "large": to.types[1],
        "public_key": public_key(folder),
    }
    environment = to.variables(folder) | {f"TF_VAR_{name}": value for name, value in given_to.items()}
    environment |= {"TF_CLI_CONFIG_FILE": str(configuration), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    destroy = Step("destroy", [terraform, "destroy", "-auto-approve", "-input=false", "-no-color", "-var=word=second"])
    go: Callable[..., list[str]] = partial(run, folder=folder, environment=environment)
    wrong = go(before(terraform))
    if not wrong:
        wrong = go(imports(terraform, ids(folder / "terraform.tfstate")))
    wrong += go([destroy]) if os.path.lexists(folder / "terraform.tfstate") else []
    return wrong


def main(arguments: Sequence[str]) -> int:
    return account.main("bin/conformance terraform-aws", str(__doc__), arguments, _more, _check, _run)
