"""bin/conformance terraform-aws: applies, changes, imports and destroys with Terraform's provider aws; plans must be
empty.

Terraform or OpenTofu, and the provider hashicorp/aws must be installed on this machine: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.conformance.aws import account
from tools.conformance.aws.account import Account
from tools.conformance.aws.steps import Step, run

PROVIDER = "hashicorp/aws"
MIRRORS = (
    "~/.terraform.d/plugins",
    "/usr/local/share/terraform/plugins",
    "/usr/share/terraform/plugins",
    "/opt/tf-plugins",
)
"""Folders in which Terraform searches for providers without a registry, and one additional folder."""
IMPORTED = (
    "aws_vpc.main", "aws_subnet.first", "aws_internet_gateway.main", "aws_security_group.web", "aws_key_pair.main",
    "aws_instance.web", "aws_ebs_volume.data", "aws_eip.web",
)  # fmt: skip
CHANGED = "-var=change=true"
UNREAD = {
    "aws_key_pair.main": ["public_key"],
    "aws_instance.web": ["user_data_replace_on_change", "volume_tags", "root_block_device[0].tags"],
}
"""Imported resource → attributes that the provider does not read, of AWS neither: its plans would set them."""


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
    raise BenchError(f"there is no provider {PROVIDER} in {', '.join(folders)}: specify its folder with --plugins")


def ids(state: Path) -> dict[str, str]:
    """Return address → id of the resources in a state file."""
    kept = json.loads(state.read_text())
    managed = [each for each in kept["resources"] if each["mode"] == "managed"]
    return {f"{each['type']}.{each['name']}": each["instances"][0]["attributes"]["id"] for each in managed}


def check(to: Account, folder: Path, plugins: Path) -> list[str]:
    """Apply, change, import and destroy, with plans between them, and return the errors."""
    terraform = program()
    shutil.copy(Path(__file__).with_name("main.tf"), folder)
    settings = folder / "terraform.rc"
    settings.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{plugins}"\n  }}\n}}\n')
    environment = to.variables(folder) | {
        "TF_VAR_endpoint": to.url,
        "TF_VAR_region": to.region,
        "TF_VAR_image_name": to.image,
        "TF_VAR_instance_types": json.dumps(to.types),
        "TF_VAR_root_size": str(to.root_size),
        "TF_CLI_CONFIG_FILE": str(settings),
        "CHECKPOINT_DISABLE": "1",
        "TF_IN_AUTOMATION": "1",
    }
    go: Callable[..., list[str]] = partial(run, folder=folder, environment=environment)
    wrong = go(changes(terraform))
    if not wrong:
        (folder / "imported_override.tf.json").write_text(unread())
        wrong = go(imports(terraform, ids(folder / "terraform.tfstate")))
    if (folder / "terraform.tfstate").exists():
        wrong += go([_step(terraform, "destroy", "-auto-approve", CHANGED)])
    return wrong


def unread() -> str:
    """Return an override file by which plans ignore the attributes in ``UNREAD``."""
    found: dict[str, dict[str, object]] = {}
    for address, names in UNREAD.items():
        kind, _, name = address.partition(".")
        found.setdefault(kind, {})[name] = {"lifecycle": {"ignore_changes": names}}
    return json.dumps({"resource": found})


def changes(terraform: str) -> list[Step]:
    """Return the steps from an empty folder to a changed, settled state."""
    return [
        _step(terraform, "init"),
        _step(terraform, "apply", "-auto-approve"),
        _plan(terraform),
        _step(terraform, "apply", "-auto-approve", CHANGED),
        _plan(terraform, CHANGED),
    ]


def imports(terraform: str, known: dict[str, str]) -> list[Step]:
    """Return the steps that remove resources from the state and import them again, with an empty plan afterwards."""
    steps = []
    for address in IMPORTED:
        steps.append(Step(f"forget {address}", [terraform, "state", "rm", "-no-color", address]))
        steps.append(_step(terraform, "import", CHANGED, address, known[address]))
    return [*steps, _plan(terraform, CHANGED)]


def _plan(terraform: str, *options: str) -> Step:
    """Return a step that fails if there are changes: the status is then 2."""
    return _step(terraform, "plan", "-detailed-exitcode", *options)


def _step(terraform: str, command: str, *options: str) -> Step:
    return Step(" ".join((command, *options)), [terraform, command, "-input=false", "-no-color", *options])


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plugins", metavar="FOLDER", help="where the provider is, laid out as a filesystem mirror")


def _folders(given: argparse.Namespace) -> list[str]:
    return [given.plugins] if given.plugins else list(MIRRORS)


def _check(given: argparse.Namespace) -> None:
    program()
    mirror(_folders(given))


def _run(to: Account, folder: Path, given: argparse.Namespace) -> list[str]:
    return check(to, folder, mirror(_folders(given)))


def main(arguments: Sequence[str]) -> int:
    return account.main("bin/conformance terraform-aws", str(__doc__), arguments, _more, _check, _run)
