"""A cloud image of a gigabyte comes by file and by address, and a guest of each is logged in to.

The upload goes through the real web server, loses its connection and its page on the way; the download loses its
connection.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import Key, watch
from tests.e2e.pictures import picture
from tests.e2e.test_browser_launch import group_of, ssh
from tests.support.guest_image import guest_image
from tests.support.one_machine import PATIENCE, OneMachine, running
from tests.support.web import Handler, Web, web_server

pytestmark = [pytest.mark.deep, pytest.mark.e2e, pytest.mark.libvirt]
SIZE = 1 << 30
"""Bytes of the image."""
PIECE = 8 << 20
MOST_MEMORY = 64 << 10
"""KiB by which a web process may grow meanwhile: some MiB wait between the socket and the disk."""
IS_AT = "(least) => parseInt(document.getElementById('upload-percent').textContent) >= least"
NOTE_THE_FIRST = """() => {
    const percent = document.getElementById('upload-percent');
    new MutationObserver(() => { window.first ||= percent.textContent; }).observe(percent, {childList: true});
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the images are, which nobody should keep."""
    path = tmp_path_factory.mktemp("gigabyte")
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def image(folder: Path) -> Path:
    """The tests' guest, with data behind its system that nothing makes smaller."""
    path = folder / "debian-like.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", guest_image().path, path], check=True)
    with path.open("ab") as file:
        while left := SIZE - file.tell():
            file.write(os.urandom(min(left, PIECE)))
    return path


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_server() as web:
        yield web


@pytest.fixture(scope="module")
def cloud(web: Web) -> Iterator[OneMachine]:
    """A cloud whose operator lets images be fetched from one server of its own network."""
    settings = {"NOVELLA_IMPORT_ALLOWED_NETWORKS": "127.0.0.1/32", "NOVELLA_IMPORT_PORTS": str(web.port)}
    with running(settings={"NOVELLA_AGENT_NO_UPLINK": "1", **settings}) as cloud:
        yield cloud


def sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()


def peaks(cloud: OneMachine) -> dict[int, int]:
    """The most memory in KiB that each process of the web server has had."""
    pids = group_of(cloud.runs[-1].service("manage.py web"))
    result = {pid: re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()) for pid in pids}
    return {pid: int(match[1]) for pid, match in result.items() if match}


def upload(page: Page, image: Path) -> None:
    page.locator("#file").set_input_files(image)
    page.get_by_test_id("upload-submit").click()


def test_an_upload_of_a_gigabyte(cloud: OneMachine, signed_in: BrowserContext, image: Path, key: Key) -> None:
    """It survives an interruption and a reload, and the web server keeps nothing of it in memory."""
    before = peaks(cloud)
    row = watch(signed_in, f"{cloud.url}/images/").page.locator("tr", has_text=image.stem)
    page = watch(signed_in, f"{cloud.url}/images/upload/").page
    upload(page, image)
    page.wait_for_function(IS_AT, arg=20)
    signed_in.set_offline(True)
    expect(page.locator("#upload-words")).to_contain_text("Trying again")
    expect(page.locator("#upload-figures")).not_to_contain_text("/s")
    picture(page, "gigabyte-offline")
    signed_in.set_offline(False)
    page.wait_for_function(IS_AT, arg=50)

    page.reload()
    expect(row.get_by_role("progressbar")).to_have_attribute("value", re.compile(r"[4-9]\d"))
    page.get_by_role("link", name="Resume this upload").click()
    page.wait_for_url(re.compile(r"/images/[0-9a-f-]{36}/upload/"))
    page.evaluate(NOTE_THE_FIRST)
    upload(page, image)
    page.wait_for_function(IS_AT, arg=70)
    first = int(page.evaluate("window.first").split()[0])
    picture(page, "gigabyte-resumed")
    page.wait_for_url(f"{cloud.url}/images/", timeout=1000 * PATIENCE)
    assert first > 40, "the progress goes on where it was"
    expect(row).to_contain_text("Ready")
    grown = {pid: peak - before[pid] for pid, peak in peaks(cloud).items() if pid in before}
    assert len(grown) >= 2
    assert max(grown.values()) < MOST_MEMORY, grown
    log_in(cloud, signed_in, image, key)


def test_a_download_of_a_gigabyte(
    cloud: OneMachine, signed_in: BrowserContext, image: Path, key: Key, web: Web, folder: Path
) -> None:
    """It goes on where its connection broke."""
    compact = folder / "from-the-web.qcow2"
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", image, compact], check=True)
    breaks_after = SIZE // 3
    web.answers["/images/from-the-web.qcow2"] = lambda handler: serve(handler, compact, breaks_after)
    page = watch(signed_in, f"{cloud.url}/images/upload/").page
    page.get_by_text("At a web address").click()
    page.locator("#uri").fill(web.url("/images/from-the-web.qcow2"))
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(f"{cloud.url}/images/")
    row = page.locator("tr", has_text=compact.stem)
    expect(row.get_by_role("progressbar")).to_have_attribute("value", re.compile(r"[1-9]\d"))
    picture(page, "gigabyte-download")
    expect(row).to_contain_text("Ready")
    assert [headers.get("range") for _, headers in web.asked] == [None, f"bytes={breaks_after}-"]
    log_in(cloud, signed_in, compact, key)


def serve(handler: Handler, path: Path, breaks_after: int) -> None:
    """Answer with a file, or with the rest of it; a whole one breaks off."""
    size = path.stat().st_size
    begin = int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    handler.send_response(206 if begin else 200)
    handler.send_header("ETag", '"the-only-one"')
    handler.send_header("Content-Length", str(size - begin))
    if begin:
        handler.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
    handler.end_headers()
    left = size - begin if begin else breaks_after
    with path.open("rb") as file:
        file.seek(begin)
        while left:
            left -= handler.wfile.write(file.read(min(left, PIECE)))


def log_in(cloud: OneMachine, context: BrowserContext, image: Path, key: Key) -> None:
    """The image has the file's data; launch a guest of it in the wizard, and sign in there by SSH."""
    record = cloud.openstack_json("image", "show", image.stem)
    assert record["properties"]["os_hash_value"] == sha512(image)
    assert record["size"] == image.stat().st_size
    name = f"of-{image.suffix[1:]}"
    page = watch(context, f"{cloud.url}/instances/launch/").page
    choose_key(page, key)
    page.locator("label", has_text=image.stem).click()
    page.locator("#name").fill(name)
    page.locator("label", has_text="m1.nano").click()
    page.get_by_test_id("launch-submit").click()
    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}/"))
    page.get_by_test_id("head-console").click()
    expect(page.get_by_test_id("console-log")).to_contain_text(f"Novella guest: {name}")
    picture(page, f"gigabyte-{name}")
    port = cloud.openstack("port", "list", "--server", name, "-f", "value", "-c", "ID").strip()
    floating = cloud.openstack_json("floating", "ip", "create", "--port", port, "public")["floating_ip_address"]
    assert ssh(cloud, key, str(floating), "hostname").strip() == name


def choose_key(page: Page, key: Key) -> None:
    """Take the key, which the first launch imports."""
    known = page.locator("input[name=key_name][value=laptop]")
    if not known.count():
        if not page.locator("#key_new_name").is_visible():
            page.get_by_text("New key pair").click()
        page.locator("#key_new_name").fill("laptop")
        page.locator("#key_new_public").fill(key.public.read_text())
        page.get_by_role("button", name="Add key pair").click()
    else:
        page.locator("label", has=known).click()
    expect(known).to_be_checked()
