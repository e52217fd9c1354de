"""Keeps what Ray, Ray Serve and torch open for themselves on loopback; each of them opens ports on all interfaces.

None of these ports asks for a key, and those of Ray and Ray Serve execute what they are sent. Each function sets what
the library has no setting for; tests/e2e/test_server.py looks at the sockets.
"""

import os

LOOPBACK = "127.0.0.1"
_LAST_WORD = "RAY_gcs_rpc_server_reconnect_timeout_s"  # Ray's agents outlive their node by this, a minute by default
STORE = "DAPO_EVAL_STORE"  # environment variable: folder where the ranks of one engine meet


def start_ray_on_loopback() -> None:
    """Make the Ray that is started next take 127.0.0.1 for its address, as it does on macOS by default.

    Its servers then bind to that address alone. `ray.init(_node_ip_address="127.0.0.1")` looks for another address.
    """
    from ray._private import ray_constants

    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"  # for its processes
    ray_constants.ENABLE_RAY_CLUSTER = False  # for this one, which has read the variable
    os.environ.setdefault(_LAST_WORD, "2")


def bind_replica_to_loopback() -> None:
    """In a replica's process: bind the port for calls between deployments, fixed to `[::]:0`, to loopback.

    The application has one deployment, and proxies reach it by Ray's own calls.
    """
    import grpc

    server = type(grpc.aio.server())
    add = server.add_insecure_port

    def add_on_loopback(self, address: str) -> int:
        return add(self, address.replace("[::]:", f"{LOOPBACK}:"))

    server.add_insecure_port = add_on_loopback


def init_method(address: str) -> str:
    """Where the ranks of one engine meet: a file in the folder `STORE` instead of vLLM's own `address`.

    torch's store for `tcp://127.0.0.1:PORT` listens on all interfaces. vLLM's CPU worker names shared memory by what
    follows the last colon, so that stays.
    """
    return f"file://{os.environ[STORE]}/ranks:{address.rsplit(':', 1)[1]}"
