"""Built-in snippets of cloud-config, for the distributions of the image catalogue."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A snippet that all projects have."""

    name: str
    title: str
    description: str
    text: str


BUILT_IN = {
    each.name: each
    for each in (
        BuiltIn(
            "updates",
            "Install updates",
            "All packages, at the first boot",
            "#cloud-config\npackage_update: true\npackage_upgrade: true\n",
        ),
        BuiltIn(
            "guest-agent",
            "Guest agent",
            "For passwords and consistent snapshots",
            "#cloud-config\npackages: [qemu-guest-agent]\nruncmd: [[systemctl, enable, --now, qemu-guest-agent]]\n",
        ),
        BuiltIn(
            "nginx",
            "Web server",
            "nginx on port 80",
            "#cloud-config\npackages: [nginx]\nruncmd: [[systemctl, enable, --now, nginx]]\n",
        ),
        BuiltIn(
            "docker",
            "Docker",
            "From the packages of Debian and Ubuntu",
            "#cloud-config\npackages: [docker.io]\nruncmd: [[systemctl, enable, --now, docker]]\n",
        ),
        BuiltIn(
            "swap",
            "Swap file",
            "1 GiB on the root disk",
            "#cloud-config\nswap:\n  filename: /swap.img\n  size: 1073741824\n  maxsize: 1073741824\n",
        ),
    )
}
