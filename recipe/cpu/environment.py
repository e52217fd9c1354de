"""Environment variables that every process of a CPU run must see."""

import os

ENGINE = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # lets one-rank engines keep their worker; else vLLM gives it a process
    "TORCHDYNAMO_DISABLE": "1",  # with eager models only sampling helpers would compile: 23 s at every start
}
"""What vLLM's build for CPU cores wants, in training and evaluation alike."""


def cpu_environment(devices: int, own_cluster: bool) -> dict[str, str]:
    """Return the variables for `devices` logical GPUs on this machine.

    With `own_cluster` Ray runs on this machine for this run only, and everything stays on the loopback device; ranks of
    a cluster that runs already must find each other over its network.
    What the user has already set wins, save the variables that select the CPU platform.
    """
    threads = max(1, (os.cpu_count() or 1) // max(1, devices))
    defaults = ENGINE | {
        "OMP_NUM_THREADS": str(threads),  # Ray would set 1 in every actor
        "OMP_WAIT_POLICY": "PASSIVE",  # idle threads sleep: a dozen processes share the cores
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": "WARN",  # as verl sets it for its workers, which are forks here
    }
    if own_cluster:
        defaults["GLOO_SOCKET_IFNAME"] = "lo"
        defaults["VLLM_HOST_IP"] = "127.0.0.1"  # an engine that is its own worker would meet itself on the network
        defaults["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray's word for: my own cluster's address is 127.0.0.1
    return {key: os.environ.get(key, value) for key, value in defaults.items()} | {
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "recipe.cpu.plugin",
    }
