"""Leaves out the tests of networks where the packages that train them are not installed."""

from importlib.util import find_spec

from training.cli import NETWORK_PACKAGES

collect_ignore = [] if all(map(find_spec, NETWORK_PACKAGES)) else ["networks"]
