#!/usr/bin/env bash
# The two files that the 32B recipes read: dapo-math-17k.parquet (each problem once, none of AIME 2024) and
# aime-2024.parquet (30 problems), each with its card.
#   scripts/prepare_data.sh                                    from the Hub
#   TRAIN_INPUT=a.parquet TEST_INPUT=b.parquet scripts/prepare_data.sh     from local copies, without a network
#   scripts/prepare_data.sh --lang en --holdout 500            options go to the training file
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
DATA_DIR=$(realpath -m "${DATA_DIR:-$root/data}") # where the two files go
TEMPLATE=${TEMPLATE:-answer}                      # answer, boxed or none; of both files, the reward must read the same
TRAIN_INPUT=${TRAIN_INPUT:+$(realpath -m "$TRAIN_INPUT")} # empty: from the Hub
TEST_INPUT=${TEST_INPUT:+$(realpath -m "$TEST_INPUT")}    # empty: from the Hub
# shellcheck source=scripts/lib.sh
. "$root/scripts/lib.sh"
find_python
cd "$root"

"$PYTHON" -m data_prep.prepare aime_2024 --out "$DATA_DIR" --template "$TEMPLATE" ${TEST_INPUT:+--input "$TEST_INPUT"}
# A problem that is published with two answers teaches nothing: all its rows go, and the card counts them.
"$PYTHON" -m data_prep.prepare dapo_math_17k --out "$DATA_DIR" --template "$TEMPLATE" \
    ${TRAIN_INPUT:+--input "$TRAIN_INPUT"} --decontaminate "$DATA_DIR/aime-2024.parquet" --conflicts drop "$@"
