#!/usr/bin/env bash
# The two files that the 32B recipes read: dapo-math-17k.parquet (each problem once, none of AIME 2024) and
# aime-2024.parquet (30 problems), each with its card.
#   scripts/prepare_data.sh                                    from the Hub
#   TRAIN_INPUT=a.parquet TEST_INPUT=b.parquet scripts/prepare_data.sh     from local copies, without a network
#   TOKENIZER=Qwen/Qwen2.5-32B scripts/prepare_data.sh         prompts measured with the chat template of the model
#   scripts/prepare_data.sh --lang en --holdout 500            options go to the training file
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
DATA_DIR=$(realpath -m "${DATA_DIR:-$root/data}") # where the two files go
TEMPLATE=${TEMPLATE:-answer}                      # answer, boxed or none; of both files, the reward must read the same
TRAIN_INPUT=${TRAIN_INPUT:+$(realpath -m "$TRAIN_INPUT")} # empty: from the Hub
TEST_INPUT=${TEST_INPUT:+$(realpath -m "$TEST_INPUT")}    # empty: from the Hub
TOKENIZER=${TOKENIZER:-}                                  # of the model, folder or Hub name; empty: prompts not measured
MAX_PROMPT_TOKENS=${MAX_PROMPT_TOKENS:-2048}              # with TOKENIZER: longer training prompts are dropped, and counted
# shellcheck source=scripts/lib.sh
. "$root/scripts/lib.sh"
find_python
[ ! -d "$TOKENIZER" ] || TOKENIZER=$(realpath "$TOKENIZER")
cd "$root"

"$PYTHON" -m data_prep.prepare aime_2024 --out "$DATA_DIR" --template "$TEMPLATE" ${TEST_INPUT:+--input "$TEST_INPUT"} \
    ${TOKENIZER:+--tokenizer "$TOKENIZER"}
# A problem that is published with two answers teaches nothing: all its rows go, and the card counts them.
"$PYTHON" -m data_prep.prepare dapo_math_17k --out "$DATA_DIR" --template "$TEMPLATE" \
    ${TRAIN_INPUT:+--input "$TRAIN_INPUT"} --decontaminate "$DATA_DIR/aime-2024.parquet" --conflicts drop \
    ${TOKENIZER:+--tokenizer "$TOKENIZER" --max_prompt_tokens "$MAX_PROMPT_TOKENS"} "$@"
