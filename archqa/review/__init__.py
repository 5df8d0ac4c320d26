"""Reviews of answers by people, and the keys made of them.

`ReviewStore` is the door: it saves, takes back, lists and adjudicates reviews, and writes keys.
"""
