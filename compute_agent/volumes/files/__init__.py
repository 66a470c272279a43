"""Pools of qcow2 files: layers, merging, encryption and unmanaged disks."""
