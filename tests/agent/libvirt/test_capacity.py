"""What libvirt says of the processor, as the agent passes it on."""

from __future__ import annotations

from compute_agent.virt.libvirt.capacity import _processor

CAPABILITIES = """
<capabilities>
  <host>
    <cpu>
      <arch>x86_64</arch><model>Skylake</model><vendor>Intel</vendor>
      <topology sockets='1' dies='1' cores='2' threads='2'/>
      <feature name='vmx'/><feature name='pge'/>
    </cpu>
  </host>
</capabilities>
"""


def test_model_topology_and_features_are_reported() -> None:
    assert _processor(CAPABILITIES) == {
        "arch": "x86_64",
        "model": "Skylake",
        "vendor": "Intel",
        "sockets": "1",
        "cores": "2",
        "threads": "2",
        "features": "vmx,pge",
    }


def test_what_is_not_specified_is_left_out() -> None:
    assert _processor("<capabilities><host><cpu><arch>x86_64</arch></cpu></host></capabilities>") == {"arch": "x86_64"}
    assert _processor("<capabilities/>") == {}
