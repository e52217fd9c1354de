"""What all tests share: no network for the fast ones, room for the slow ones, data that is not in here."""

import os
import signal
import socket
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    WANDB_MODE="offline",
    RAY_USAGE_STATS_ENABLED="0",
    VLLM_NO_USAGE_STATS="1",
)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background job; tests interrupt what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine fails no example, and the same examples are tried each time; EXPLORE=1 tries new ones.
settings.register_profile("here", deadline=None, derandomize="EXPLORE" not in os.environ)
settings.load_profile("here")

REPOSITORY = Path(__file__).resolve().parents[1]
E2E_TIMEOUT_S = 900
LOOPBACK = ("127.", "localhost", "::1", "0.0.0.0", "::")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets and cases that lies beside a developer's checkout, never in it."""
    path = REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no {path}: these data are not part of the repository")
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give an e2e test that names no timeout one that its minutes fit into."""
    for item in items:
        if item.get_closest_marker("e2e") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(E2E_TIMEOUT_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """Refuse a fast test any connection that leaves this machine, also where there is a network to reach."""
    if item.get_closest_marker("e2e"):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _connect_here_only)
        return (yield)


def _connect_here_only(self: socket.socket, address) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(LOOPBACK):
        raise OSError(f"a fast test must not reach the network: connection to {address}. Mark it e2e, or use a stub.")
    super(socket.socket, self).connect(address)
