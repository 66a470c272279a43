"""What guests ask at 169.254.169.254 and fe80::a9fe:a9fe: answered from what the host was told, without the portal."""
