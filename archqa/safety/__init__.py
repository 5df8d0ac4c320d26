"""What keeps record text and keys private, and storage and inputs from doing harm.

Names of servers without secrets, private files, locks, text made safe to show, limits of replies,
and who may use a local server. See docs/security.md.
"""
