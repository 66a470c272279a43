"""Messages between the portal and the agents: versioned, typed, and validated when they are decoded. Only this package
is imported on both sides.
"""
