"""Programs around a cloud: measurements, chaos, long runs, the guest image, and servers for tests."""
