"""The credential keys, their rotation, and the values that they encrypt."""
