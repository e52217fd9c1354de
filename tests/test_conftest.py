import os
import socket

import pytest


def test_a_fast_test_cannot_leave_this_machine():
    with socket.socket() as one, pytest.raises(OSError, match="must not reach the network"):
        one.connect(("192.0.2.1", 80))  # an address that RFC 5737 keeps for documentation: no one is there


def test_a_fast_test_can_talk_to_itself():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_hubs_are_off():
    assert os.environ["HF_HUB_OFFLINE"] == "1"
