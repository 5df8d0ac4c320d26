"""Ray nodes on this machine, for as long as a test lasts."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_socket import socket_allow_hosts

os.environ["RAY_USAGE_STATS_ENABLED"] = (
    "0"  # Before Ray is imported: nothing leaves this machine.
)


@pytest.fixture
def ray_nodes() -> Iterator[Any]:
    """Two nodes of one core each; the first is the head, where the driver is."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.second = cluster.add_node(num_cpus=1)
    # Ray's nodes listen at this machine's own address, not on loopback.
    own = cluster.address.rpartition(":")[0]
    socket_allow_hosts(["127.0.0.1", "::1", "localhost", own], allow_unix_socket=True)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
