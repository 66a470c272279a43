"""The dialect of the Identity API: Keystone's bodies with additional attributes, links, and its kinds of lists."""
