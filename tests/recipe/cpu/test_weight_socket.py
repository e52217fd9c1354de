import tempfile

import pytest
import zmq

from recipe.cpu.weight_socket import limit_waits, own_socket

VERLS = "ipc:///tmp/rl-colocate-zmq-01000000-replica-0-rank-0.sock"


@pytest.fixture
def scratch(monkeypatch):
    def use(folder):
        monkeypatch.setattr(tempfile, "tempdir", str(folder))

    return use


def test_two_runs_on_one_machine_do_not_share_a_socket(scratch):
    scratch("/tmp/dapo-1-a")
    assert own_socket(VERLS) == "ipc:///tmp/dapo-1-a/rl-colocate-zmq-01000000-replica-0-rank-0.sock"
    scratch("/tmp/dapo-2-b")
    assert own_socket(VERLS) != VERLS.replace("/tmp/", "/tmp/dapo-1-a/")


@pytest.mark.parametrize(("length", "moved"), [(107, True), (108, False)])
def test_a_path_that_no_socket_can_have_is_left_alone(scratch, length, moved):
    name = VERLS.rsplit("/", 1)[1]
    scratch("/" + "d" * (length - len(name) - 2))
    assert (own_socket(VERLS) != VERLS) == moved


def test_a_socket_elsewhere_is_refused():
    with pytest.raises(RuntimeError, match="not below ipc:///tmp/"):
        own_socket("ipc:///run/verl.sock")


def test_a_sender_does_not_wait_for_ever_for_an_engine_that_never_came_or_has_died(tmp_path):
    with zmq.Context() as context, context.socket(zmq.REQ) as sender:
        sender.bind(f"ipc://{tmp_path}/weights")
        limit_waits(sender, seconds=0.2)
        with pytest.raises(zmq.Again):
            sender.send_pyobj("metadata")
        engine = context.socket(zmq.REP)
        engine.connect(f"ipc://{tmp_path}/weights")
        limit_waits(engine, seconds=20)
        sender.setsockopt(zmq.SNDTIMEO, 20_000)
        sender.send_pyobj("metadata")
        assert engine.recv_pyobj() == "metadata"
        with pytest.raises(zmq.Again):
            sender.recv()
        engine.close()
