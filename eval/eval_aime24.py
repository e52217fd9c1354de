"""Evaluates a served model on AIME 2024, or any prepared parquet: avg@k, pass@k, maj@k with intervals over problems.

    python eval/eval_aime24.py --temperature 1.0 --top_p 0.7 --max_tokens 20480 \\
        --model BytedTsinghua-SIA/DAPO-Qwen-32B --test_file eval/aime-2024.parquet

The samples are appended to a JSONL as they finish; the same command asks only for what is missing. `--help` says more.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: packages are found in the folder above, and nothing by its bare name in this one
    _HERE = Path(__file__).resolve().parent
    sys.path[:] = [str(_HERE.parent), *(path for path in sys.path if Path(path) != _HERE)]

if __name__ == "__main__":  # grading processes import this file too, and need nothing of it
    from eval.command import main

    sys.exit(main())
