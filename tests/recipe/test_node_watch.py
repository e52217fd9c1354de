"""A dead node ends a training that would wait for it."""

import signal
import time

import pytest

from recipe.node_watch import NodeLost, dead, ended_by_a_dead_node, nodes_of_job

MINE, OTHER = "01000000", "02000000"


def node(name, alive):
    """An entry of `ray.nodes()`, as far as it is read."""
    return {"NodeID": name, "Alive": alive, "NodeManagerHostname": f"host-{name}", "NodeManagerAddress": "10.0.0.1"}


def test_only_dead_nodes_with_a_group_of_this_job_count():
    groups = {
        f"aa{MINE}": {"bundles_to_node_id": {0: "n1", 1: "n2"}},
        f"bb{MINE}": {"bundles_to_node_id": {0: "n2"}},
        f"cc{OTHER}": {"bundles_to_node_id": {0: "n3"}},
    }
    used = nodes_of_job(groups, MINE)
    assert used == {"n1", "n2"}
    assert dead([node("n1", True), node("n2", True), node("n3", False), node("n4", False)], used) == []
    (found,) = dead([node("n1", True), node("n2", False) | {"DeathReasonMessage": "missed heartbeats"}], used)
    assert found == "host-n2 (10.0.0.1, missed heartbeats)"


def test_a_dead_node_interrupts_what_waits_for_it():
    looks = iter([[], [], ["host-n2"]])
    started, before = time.monotonic(), signal.getsignal(signal.SIGUSR1)
    with (
        pytest.raises(NodeLost, match=r"host-n2.*The same command resumes"),
        ended_by_a_dead_node(lambda: next(looks), 0.2),
    ):
        time.sleep(60)
    assert time.monotonic() - started < 30
    assert signal.getsignal(signal.SIGUSR1) == before


def test_living_nodes_change_nothing():
    with ended_by_a_dead_node(list, 0.01):
        time.sleep(0.05)
    with pytest.raises(KeyError), ended_by_a_dead_node(list, 0.01, grace_s=0.05):
        raise KeyError
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), ended_by_a_dead_node(list, 0.01):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(ConnectionError), ended_by_a_dead_node(lambda: None, 0.01):  # Ray was not reached
        raise ConnectionError
    assert time.monotonic() - started < 30  # neither waits for a minute


def test_a_failure_is_explained_once_ray_calls_a_node_dead(caplog):
    """The rank that is left may fail in gloo long before Ray has missed the node's health checks."""
    called = time.monotonic() + 0.3
    look = lambda: ["host-n2"] if time.monotonic() > called else []  # noqa: E731
    with pytest.raises(NodeLost, match="host-n2"), ended_by_a_dead_node(look, 0.05, grace_s=10.0):
        raise RuntimeError("[gloo] Connection closed by peer")
    assert "RuntimeError: [gloo] Connection closed by peer" in caplog.text  # whoever stops the wait has seen it
    with pytest.raises(ZeroDivisionError), ended_by_a_dead_node(list, 0.01, grace_s=0.05):
        raise ZeroDivisionError
