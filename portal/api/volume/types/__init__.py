"""Volume types: extra specs, access, encryption, defaults."""
