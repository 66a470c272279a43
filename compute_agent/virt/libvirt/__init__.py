"""The libvirt driver; the only package that imports libvirt."""
