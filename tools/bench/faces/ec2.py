"""``bin/bench ec2``: the cost of the EC2 API relative to the Compute API for the same work, as a table.

Both are measured alternately on one cloud with simulated hosts, one request at a time over a kept connection; requests
are signed before the clock runs, and answers read after it. A slow result does not cause a failure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.bench.cloud import ACTIVE_WITHIN, BenchError, Client, Cloud
from tools.bench.networking.rows import Row, spread
from tools.ec2_client import PATH, Ec2Keys, Signed, read

HOSTS = 3
MOST_OF_COMPUTE = 2.0
"""The goal: the maximum time of the EC2 API as a multiple of the Compute API's time."""
MANY = 100
AT_ONCE = 25
"""Number of servers in each launch while the listed servers are created."""
FREE = ("instances", "cores", "ram", "fixed_ips")
SERVERS, DETAIL, FLAVOR = "/compute/v2.1/servers", "/compute/v2.1/servers/detail", "/compute/v2.1/flavors/1"
NEWEST = "compute 2.96"
Ask = Callable[[], bytes]


class Wire:
    """A connection for requests that were prepared before."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def send(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> bytes:
        """Return the body of the answer. Raises BenchError if the request is refused."""
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 300:
            raise BenchError(f"{method} {path}: {response.status} {content[:300]!r}")
        return content

    def close(self) -> None:
        self._connection.close()


class Faces:
    """The demo user's requests to both APIs; each is signed or serialized before it is measured."""

    def __init__(self, cloud: Cloud) -> None:
        self.client = Client(cloud)
        self._keys = Ec2Keys(cloud.port, *self.client.ec2_keys())
        self._compute, self._ec2 = Wire(cloud.port), Wire(cloud.port)

    def ec2(self, action: str, **arguments: Any) -> Ask:
        signed = self._keys.signed(action, arguments)
        return lambda: self._signed(signed)

    def _signed(self, signed: Signed) -> bytes:
        return self._ec2.send("POST", PATH, signed.body, dict(signed.headers))

    def compute(self, method: str, path: str, body: Any = None) -> Ask:
        text = None if body is None else json.dumps(body)
        headers = {
            "X-Auth-Token": self.client.token,
            "OpenStack-API-Version": NEWEST,
            "Content-Type": "application/json",
        }
        return lambda: self._compute.send(method, path, text, headers)

    def result(self, action: str, **arguments: Any) -> dict[str, Any]:
        return read(action, 200, self.ec2(action, **arguments)())

    def close(self) -> None:
        for each in (self._compute, self._ec2, self.client):
            each.close()


def seconds(ask: Ask) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def in_turns(times: int, ec2: Callable[[], Ask], compute: Callable[[], Ask]) -> tuple[list[float], list[float]]:
    """Return the seconds of each request to EC2 and to Compute; their order changes in each round."""
    found: tuple[list[float], list[float]] = [], []
    for number in range(times + 1):
        order = ((0, ec2), (1, compute)) if number % 2 else ((1, compute), (0, ec2))
        for at, make in order:
            spent = seconds(make())
            if number:  # the first request of each API fills caches
                found[at].append(spent)
    return found


def rows(what: tuple[str, str], times: int, ec2: Callable[[], Ask], compute: Callable[[], Ask]) -> list[Row]:
    """Return a row for each API, the first with the ratio of their times; ``what`` has the names of the rows."""
    ours, theirs = in_turns(times, ec2, compute)
    ratio = statistics.median(ours) / statistics.median(theirs)
    goal = f"at most {MOST_OF_COMPUTE:.0f} times: {'met' if ratio <= MOST_OF_COMPUTE else 'missed'}"
    return [Row(what[0], f"{spread(ours)}, {ratio:.2f} times", goal), Row(f"  {what[1]}", spread(theirs))]


def lists(faces: Faces, times: int, servers: int) -> list[Row]:
    shown = faces.result("DescribeInstances")["Reservations"]
    count = sum(each["State"]["Name"] == "running" for found in shown for each in found["Instances"])
    if count != servers:
        raise BenchError(f"DescribeInstances shows {count} running instances instead of {servers}")
    what = (f"DescribeInstances, {servers} running", "GET /servers/detail")
    return rows(what, times, lambda: faces.ec2("DescribeInstances"), lambda: faces.compute("GET", DETAIL))


def launches(faces: Faces, times: int) -> list[Row]:
    """Launch a server with each API in turn; each server is deleted before the next launch."""
    wanted = faces.client.wanted("bench")
    images = {each["Name"]: each["ImageId"] for each in faces.result("DescribeImages")["Images"]}
    image = faces.client.call("GET", f"/image/v2/images/{wanted['imageRef']}")["name"]
    flavor = faces.client.call("GET", f"/compute/v2.1/flavors/{wanted['flavorRef']}")["flavor"]["name"]
    request = {"ImageId": images[image], "InstanceType": flavor, "MinCount": 1, "MaxCount": 1}
    request["SubnetId"] = faces.result("DescribeSubnets")["Subnets"][0]["SubnetId"]

    def run() -> Ask:
        faces.client.delete_all()
        return faces.ec2("RunInstances", **request)

    def post() -> Ask:
        faces.client.delete_all()
        return faces.compute("POST", SERVERS, {"server": wanted})

    return rows(("RunInstances", "POST /servers"), times, run, post)


def fill(faces: Faces, servers: int) -> None:
    """Launch until there are ``servers`` servers, and wait until all are active. Raises BenchError."""
    faces.client.delete_all()
    for _ in range(0, servers, AT_ONCE):
        count = min(AT_ONCE, servers)
        body = faces.client.wanted("many") | {"min_count": count, "max_count": count}
        faces.client.call("POST", SERVERS, {"server": body})
    deadline = time.monotonic() + ACTIVE_WITHIN
    while time.monotonic() < deadline:
        found = faces.client.call("GET", DETAIL)["servers"]
        if len(found) == servers and all(each["status"] == "ACTIVE" for each in found):
            return
        time.sleep(0.5)
    raise BenchError(f"{servers} servers are not active")


def measure(cloud: Cloud, times: int, say: Callable[[str], None]) -> list[Row]:
    faces = Faces(cloud)
    try:
        say("requests that ask for next to nothing")
        what = ("DescribeRegions", "GET /flavors/1")
        found = rows(what, times, lambda: faces.ec2("DescribeRegions"), lambda: faces.compute("GET", FLAVOR))
        for servers in (1, MANY):
            say(f"a list of {servers}")
            fill(faces, servers)
            found += lists(faces, times, servers)
        say("launches")
        return found + launches(faces, max(times // 3, 1))
    finally:
        faces.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/bench ec2", description=__doc__)
    parser.add_argument("-n", "--times", type=int, default=60, metavar="N", help="requests of each kind (60)")
    options = parser.parse_args(arguments)
    found, began_at = list[Row](), os.getloadavg()[0]

    def say(text: str) -> None:
        print(f"… {text}", file=sys.stderr, flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
            cloud = Cloud(Path(folder) / "ec2", HOSTS)
            try:
                say("bin/up on simulated hosts")
                cloud.up()
                cloud.allow(*FREE)
                found = measure(cloud, max(options.times, 1), say)
            finally:
                cloud.clean()
    except BenchError as error:
        print(f"bin/bench: {error}", file=sys.stderr)
        return 1
    found.append(Row("load of the machine", f"{began_at:.1f} before, {os.getloadavg()[0]:.1f} at the end"))
    widths = [max(len(row[at]) for row in found) for at in (0, 1)]
    for row in found:
        print(f"{row.what:<{widths[0]}}  {row.measured:<{widths[1]}}  {row.goal}".rstrip())
    return 0
