"""Hypervisor drivers: ``driver`` is the contract, ``fake`` and ``libvirt`` implement it."""
