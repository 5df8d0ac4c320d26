"""Numbers of the items of a repeated element, such as the components of an Observation.

The halves of a composite parameter must hold in the same item, so an item has index rows of its
own. Their number is negative and made of the resource's and the item's: no table is needed to get
from one to the other.
"""

_ITEM_BITS = 20

MAX_ITEMS = 2**_ITEM_BITS
"""Items of a group that are indexed; a line of a file has room for hardly more."""

RESOURCE_OF_ITEM_SQL = f"~({{0}}) >> {_ITEM_BITS}"
"""The number of an item's resource, as SQL: the column is filled in."""


def item_number(n: int, index: int) -> int:
    """Return the number of an item of resource `n`."""
    return ~(n << _ITEM_BITS | index)


def resource_of_item(number: int) -> int:
    """Return the number of an item's resource."""
    return ~number >> _ITEM_BITS


def renumbered_item(number: int, n: int) -> int:
    """Return the number of the same item of a resource that is now called `n`."""
    return item_number(n, ~number & MAX_ITEMS - 1)


def items_of(n: int) -> tuple[int, int]:
    """Return the least and the greatest number that an item of a resource may have."""
    return item_number(n, MAX_ITEMS - 1), item_number(n, 0)
