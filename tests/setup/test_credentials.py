"""clouds.yaml and openrc files: right for the client, readable by their owner only, and a changed password survives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from openstack.config import OpenStackConfig

from up import credentials
from up.data_folder import DataFolder

URL = "http://127.0.0.1:8123/identity/v3"
ODD = "a b'c\"d$e#f: %"


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data", default=tmp_path / "var")
    folder.claim()
    return folder


@pytest.mark.filterwarnings("ignore:Support for InfluxDB")
def test_the_standard_client_reads_clouds_yaml(data: DataFolder) -> None:
    users = credentials.sign_ins(data, {"admin": "first", "demo": ODD})
    credentials.write(data, URL, users)
    config = OpenStackConfig(config_files=[str(data.path / "clouds.yaml")], load_envvars=False)
    for name, password in (("admin", "first"), ("demo", ODD)):
        region = config.get_one(cloud=name, load_envvars=False)
        assert region.config["auth"]["auth_url"] == URL
        assert region.config["auth"]["username"] == name
        assert region.config["auth"]["project_name"] == name
        assert region.config["auth"]["password"] == password
        assert region.region_name == "RegionOne"
        own = config.get_one(cloud=name, load_envvars=False, volume_api_version="3.27")
        assert own._get_version_request("block-storage", None).default_microversion == "3.27"
        own = config.get_one(cloud=name, load_envvars=False, block_storage_default_microversion="3.50")
        assert own._get_version_request("block-storage", None).default_microversion == "3.50"


def test_openrc_survives_the_shell(data: DataFolder) -> None:
    credentials.write(data, URL, credentials.sign_ins(data, {"demo": ODD}))
    names = '"$OS_AUTH_URL" "$OS_USERNAME" "$OS_PASSWORD"'
    script = f'. {data.path}/openrc-demo.sh; printf "%s|%s|%s" {names}'
    output = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert output == f"{URL}|demo|{ODD}"


def test_the_files_are_for_their_owner_only(data: DataFolder) -> None:
    credentials.write(data, URL, credentials.sign_ins(data, {"admin": "a", "demo": "d"}))
    for name in ("clouds.yaml", "openrc-admin.sh", "openrc-demo.sh"):
        assert (data.path / name).stat().st_mode & 0o777 == 0o600


def test_a_changed_password_is_taken_from_the_file_its_owner_edited(data: DataFolder) -> None:
    credentials.write(data, URL, credentials.sign_ins(data, {"admin": "made", "demo": ODD}))
    path = data.path / "clouds.yaml"
    path.write_text(path.read_text().replace('"made"', "'mine'"))
    later = credentials.sign_ins(data, {"admin": None, "demo": None})
    assert [user.password for user in later] == ["mine", ODD]


def test_an_unknown_password_is_left_out(data: DataFolder) -> None:
    credentials.write(data, URL, credentials.sign_ins(data, {"admin": None}))
    assert "password" not in (data.path / "clouds.yaml").read_text()
