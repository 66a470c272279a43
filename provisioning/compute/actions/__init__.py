"""What is done to servers: one file for each action, from who may begin it to what its end changes.

Importing ``every`` registers them all.
"""
