#!/usr/bin/env bash
# From text to the shipped files, on one GPU: about fourteen minutes on an H200.
#   TEXT=folder of prepare.py  CORPUS=pretraining_corpus.txt.xz  WORK=scratch folder  bash training/run_all.sh
# A pretrained folder that is already in WORK is used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
sentiment=(--labels negative positive --train "$TEXT/sentiment_train.jsonl" --heldout "$TEXT/sentiment_heldout.jsonl")
topic=(--labels World Sports Business Sci/Tech --train "$TEXT/topic_train.jsonl" --heldout "$TEXT/topic_heldout.jsonl")

finetune() { # name, then options; the models are small, so several share the GPU
    "$PYTHON" training/finetune.py --pretrained "$WORK/pretrained" --out "$WORK/$1" "${@:2}" ${FINETUNE_OPTIONS:-} \
        >"$WORK/$1.log" 2>&1 &
}

mkdir -p "$WORK"
if [ ! -e "$WORK/pretrained" ]; then
    "$PYTHON" training/pretrain.py --text "$CORPUS" --focus "$TEXT/focus.txt" --out "$WORK/pretrained" \
        --seconds 490 ${PRETRAIN_OPTIONS:-} 2>&1 | tee "$WORK/pretrain.log"
fi

# teachers learn the word embeddings too and need not decode: they only have to be right
teachers=()
for seed in 1 2 3 4; do
    finetune "teacher$seed" "${sentiment[@]}" --seed $seed --train-words --masked-lm-weight 0
    teachers+=($!)
done
finetune sentiment-1 "${sentiment[@]}" --seed 1
finetune topic-1 "${topic[@]}" --seed 1
wait "${teachers[@]}"

# students learn the mean probabilities of the four, also on unlabelled sentences
for seed in 11 12; do
    finetune "sentiment-student-$seed" "${sentiment[@]}" --seed $seed --teachers "$WORK"/teacher[1234] \
        --unlabelled "$TEXT/sentiment_unlabelled.jsonl" --batch 256 --rate 3e-4 --epochs ${STUDENT_EPOCHS:-3}
done
wait

tail -qn 1 "$WORK"/*-*.log
"$PYTHON" training/export.py --pretrained "$WORK/pretrained" --topic "$WORK/topic-1" \
    --sentiment "$WORK"/sentiment-1 "$WORK"/sentiment-student-1[12] --out "${OUT_FOLDER:-src/whence/embedded}"
