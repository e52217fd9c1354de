"""Benchmark: `python -m tests.benchmarks.data_prep [--rows N] [--problems N] [--repeats N]`.

Makes a file of the layout of dapo-math-17k.parquet (by default 1.79 million rows, 17 thousand problems in random
order, log-normal lengths with a mean near 300 characters, row groups of 2**20 as pandas writes them) in a temporary
folder, and runs in a fresh process each, alternating:

    data_prep     `prepare dapo_math_17k`, all checks on, file and card written
    bare_dedup    the least that a de-duplication can cost: stream all rows in, write the de-duplicated rows out
    bare_copy     stream all rows in, write all rows out
    pandas        read, de-duplicate on the normalised problem with a check for conflicts, write

Wall time and CPU time are of the work after imports; peak memory is of the whole process.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.templates import render

ROOT = Path(__file__).parents[2]
GROUP = 2**20


def make(path: Path, rows: int, problems: int, seed: int = 0) -> None:
    """Write the file; every problem occurs, the last rows of a problem wherever chance puts them."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(3000)]
    sizes = [max(8, int(rng.lognormvariate(3.6, 0.6))) for _ in range(problems)]
    texts = [render(f"{' '.join(rng.choices(words, k=n))} ${i}$?", "answer") for i, n in enumerate(sizes)]
    golds = [str(rng.randint(0, 999)) for _ in texts]
    order = np.random.default_rng(seed).permutation(np.arange(rows) % problems)
    writer = None
    for start in range(0, rows, GROUP):
        table = _table(texts, golds, order[start : start + GROUP], rng)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP)
    assert writer is not None, "rows is at least 1"
    writer.close()


def _table(texts: list[str], golds: list[str], order: np.ndarray, rng: random.Random) -> pa.Table:
    n = len(order)
    content = pa.array(texts).take(pa.array(order))
    turns = pa.StructArray.from_arrays([content, _same("user", n)], ["content", "role"])
    reward = [pa.array(golds).take(pa.array(order)), _same("rule-lighteval/MATH_v2", n)]
    ids = pa.array([str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(n)])
    return pa.table(
        {
            "data_source": _same("math_dapo", n),
            "prompt": pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32)), turns),
            "ability": _same("MATH", n),
            "reward_model": pa.StructArray.from_arrays(reward, ["ground_truth", "style"]),
            "extra_info": pa.StructArray.from_arrays([ids], ["index"]),
        }
    )


def _same(text: str, n: int) -> pa.Array:
    return pa.array([text]).take(pa.array(np.zeros(n, dtype=np.int64)))


def run_data_prep(source: Path, out: Path) -> Callable[[], object]:
    """Return the whole preparation."""
    from data_prep.options import Options
    from data_prep.pipeline import prepare

    return lambda: prepare(Options("dapo_math_17k", out, input=[str(source)], progress=False))


def run_bare_dedup(source: Path, out: Path) -> Callable[[], object]:
    """Return reading everything and writing the rows that `data_prep` had left."""
    import pandas  # noqa: F401 - pyarrow imports it on first use; it is no part of the work

    small = pq.read_table(out / "dapo-math-17k.parquet")

    def work() -> None:
        for _ in pq.ParquetFile(source).iter_batches():
            pass
        pq.write_table(small, out / "bare.parquet")

    return work


def run_bare_copy(source: Path, out: Path) -> Callable[[], object]:
    """Return reading everything and writing everything."""
    import pandas  # noqa: F401 - as above

    def work() -> None:
        file = pq.ParquetFile(source)
        with pq.ParquetWriter(out / "bare.parquet", file.schema_arrow) as writer:
            for batch in file.iter_batches(batch_size=131_072):
                writer.write_batch(batch)

    return work


def run_pandas(source: Path, out: Path) -> Callable[[], object]:
    """Return the same de-duplication with pandas."""
    import pandas as pd

    def work() -> None:
        frame = pd.read_parquet(source)
        frame["problem"] = [" ".join(turns[0]["content"].split()) for turns in frame["prompt"]]
        frame["gold"] = [model["ground_truth"] for model in frame["reward_model"]]
        unique = frame.drop_duplicates(["problem", "gold"])
        assert not unique["problem"].duplicated().any(), "a problem with two answers"
        unique.drop(columns=["problem", "gold"]).to_parquet(out / "pandas.parquet")

    return work


ARMS = {
    "data_prep": run_data_prep,
    "bare_dedup": run_bare_dedup,
    "bare_copy": run_bare_copy,
    "pandas": run_pandas,
}


def measure(arm: str, source: Path, out: Path) -> dict[str, float]:
    """Run one arm in this process; return wall and CPU seconds and the peak memory in GB (1e9 bytes)."""
    work = ARMS[arm](source, out)
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {**seconds, "peak_gb": _peak_bytes() / 1e9}


def _peak_bytes() -> int:
    """Return the high-water mark of this process alone; ru_maxrss would also hold that of the parent before exec."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def run_arm(arm: str, source: Path, out: Path) -> dict[str, float]:
    """Run one arm in a process of its own; return what it measured."""
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.data_prep",
        "--arm",
        arm,
        "--file",
        str(source),
        "--out",
        str(out),
    ]
    # Compiled modules are kept, as on any normal machine; else imports inside a library would count as work.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(out / "pycache")
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(rows: int, problems: int, repeats: int) -> dict[str, dict[str, float]]:
    """Make the file, run all arms `repeats` times in turn, return the medians by arm."""
    with tempfile.TemporaryDirectory(prefix="data_prep_bench_") as folder:
        source, out = Path(folder) / "dapo-math-17k.parquet", Path(folder) / "out"
        out.mkdir()
        make(source, rows, problems)
        run_arm("data_prep", source, out)  # compiles modules, warms the page cache, leaves the file bare_dedup writes
        found: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
        for _ in range(repeats):
            for arm in ARMS:
                found[arm].append(run_arm(arm, source, out))
        assert pq.read_metadata(out / "dapo-math-17k.parquet").num_rows == min(rows, problems)
    return {arm: {key: median(one[key] for one in runs) for key in runs[0]} for arm, runs in found.items()}


def main() -> None:
    """Print a table of the arms, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_790_000)
    parser.add_argument("--problems", type=int, default=17_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--arm", choices=list(ARMS), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.arm:
        print(json.dumps(measure(args.arm, args.file, args.out)))
        return
    print(f"{args.rows} rows, {args.problems} problems, median of {args.repeats}, load {psutil.getloadavg()[0]:.1f}")
    for arm, found in compare(args.rows, args.problems, args.repeats).items():
        rate = args.rows / found["wall_s"]
        print(f"{arm:11}" + "".join(f" {k} {v:8.2f}" for k, v in found.items()) + f" rows_per_s {rate:11,.0f}")


if __name__ == "__main__":
    main()
