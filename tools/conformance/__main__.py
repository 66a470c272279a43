"""bin/conformance: runs the test suites of other projects against a cloud, and prints the findings by service.

Without OS_ variables and --cloud it starts a separate cloud on simulated hosts, and removes it at the end. An
administrator's account is needed: the suites create projects and users. Known differences are in
tools/conformance/known.toml, with a reason for each; the exit status is 0 when there are no other failures, and none of
the known failures passes. Results are kept in .cache/conformance/LIST/results.json.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.conformance import cloud, results, table
from tools.conformance.aws import ansible, terraform
from tools.conformance.tempest.configuration import IMAGE, settings, text, with_changes
from tools.conformance.tempest.facts import ApiReader, discover
from tools.conformance.tempest.lists import LISTS, select
from tools.conformance.tempest.workspace import Tempest
from up.programs import CHECKOUT

CACHE = CHECKOUT / ".cache/conformance"
CLIENTS = {"ansible-aws": ansible.main, "terraform-aws": terraform.main}


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with a message if it is invalid."""
    lists = "\n".join(f"  {name:14} {what}" for name, (what, _) in LISTS.items())
    clients = "  ansible-aws    amazon.aws of Ansible: run, run again unchanged, remove\n" + (
        "  terraform-aws  Terraform's provider aws: apply, change, import, destroy, with empty plans between"
    )
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="bin/conformance", description=__doc__, formatter_class=kind, epilog=f"Lists:\n{lists}\n{clients}"
    )
    add = parser.add_argument
    add("list", choices=list(LISTS), metavar="LIST", help="which tests; see below")
    add("--cloud", metavar="NAME", help="a cloud of clouds.yaml; envvars: that of the OS_ variables")
    add("--match", default="", metavar="REGEX", help="only tests of the list whose name this is found in")
    add("--workers", type=int, default=os.cpu_count() or 2, metavar="N", help="tests at a time (the processors)")
    add("--ssh", action="store_true", help="sign in to guests; a cloud of its own then has real ones")
    add("--set", action="append", default=[], metavar="SECTION.OPTION=VALUE", help="a line of tempest.conf")
    add("--known", type=Path, default=results.KNOWN, metavar="FILE", help="known differences of the cloud")
    add("--page", type=Path, metavar="FILE", help="also write the table into this page, as docs/conformance.md")
    add("--environment", type=Path, default=CACHE / "environment", metavar="FOLDER", help="where tempest is installed")
    add("--judge", type=Path, metavar="FILE", help="judge these results again, without a run")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    print(f"… {line}", file=sys.stderr, flush=True)


def run(given: argparse.Namespace) -> tuple[list[results.Result], dict[str, str]]:
    """Run the tests of the list, and save their results."""
    workspace = CACHE / given.list
    own = not (given.cloud or cloud.wanted_by_variables())
    with ExitStack() as stack:
        if own:
            say(f"bin/up: a cloud of its own on {'this machine' if given.ssh else 'simulated hosts'}")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nv-conformance-")))
            place = cloud.own_region(stack.enter_context(cloud.own(folder / "cloud", real=given.ssh)))
            admin = cloud.administrator(place)
            cloud.prepare(place)
        else:
            place, admin = cloud.named(given.cloud or os.environ.get("OS_CLOUD") or "envvars")
        reader = ApiReader(place)
        user, services = reader.sign_in()
        tempest = Tempest(given.environment, workspace)
        facts = discover(reader, services, user)
        found = settings(facts, admin, workspace, ssh=given.ssh)
        if given.ssh:
            cloud.download(place, facts.images[0].id, workspace / IMAGE)
        tempest.configure(text(with_changes(found, given.set)))
        tests = select(tempest.tests(), given.list, given.match, ssh=given.ssh)
        if not tests:
            raise BenchError("no test of the list is chosen")
        say(f"{len(tests):,} tests, {given.workers} at a time; {workspace / 'run.log'}")
        began = datetime.now(UTC)
        rows = results.complete(tests, tempest.run(tests, given.workers))
        about = {"Date": f"{began:%Y-%m-%d}", "tempest": tempest.version, "hosts": "real" if given.ssh else "simulated"}
        if not own:
            about["hosts"] = "not its own"
    results.write(workspace / "results.json", rows, about)
    return rows, about


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] and arguments[0] in CLIENTS:
        return CLIENTS[arguments[0]](arguments[1:])
    given = options(arguments)
    try:
        known = results.known_differences(given.known)
        rows, about = results.read(given.judge) if given.judge else run(given)
        judged = results.judge(rows, known)
        print("\n".join(table.text(judged)))
        if given.page:
            table.write_page(given.page, given.list, table.markdown(judged, about))
    except (BenchError, ValueError) as error:
        print(f"bin/conformance: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    own = about["hosts"] != "not its own"
    return 0 if judged.clean(every_skip=own) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
