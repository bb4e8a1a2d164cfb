#!/usr/bin/env bash
# Runs the bundled tests and examples on a machine with a GPU and CUDA, without Rust.
#
# Usage: run.sh [--sanitizer] [--benches] [--only PATTERN] [--budget SECONDS] [--fresh]
#   --sanitizer  also run each example under compute-sanitizer (memcheck)
#   --benches    also run the benchmarks
#   --only       run only steps whose names contain PATTERN
#   --budget     start no step after this many seconds; run the script again to continue
#   --fresh      forget the steps that earlier runs finished
#
# A step that has passed is not run again unless its program changes. STATE is the folder in which passed
# steps are recorded (default: state beside this script). OUT is the folder for logs and the summary
# (default: out beside this script). STEP_LIMIT is the time limit of a step in seconds (default: 480).
set -u

here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/out}
state=${STATE:-$here/state}
step_limit=${STEP_LIMIT:-480}
sanitizer=0 benches=0 only= budget=0
while [ $# -gt 0 ]; do
    case "$1" in
    --sanitizer) sanitizer=1 ;;
    --benches) benches=1 ;;
    --only) only=${2:?--only needs a pattern}; shift ;;
    --budget) budget=${2:?--budget needs seconds}; shift ;;
    --fresh) rm -rf "$state" ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; [ "$1" = --help ]; exit ;;
    esac
    shift
done
mkdir -p "$out" "$state"
log=$out/log.txt
summary=$out/summary.txt
: >"$log"
: >"$summary"

cuda=${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}
if [ -d "$cuda/bin" ]; then
    export CUDA_PATH=$cuda PATH=$PATH:$cuda/bin
fi
export CUDA_TEST_REQUIRE=1
# One test at a time: some tests make a stream wait for the host, which would block calls of other
# tests in the same context.
export RUST_TEST_THREADS=1
passed=0 failed=0 left=0

# step NAME PROGRAM COMMAND...: runs COMMAND in the folder of the program's package.
step() {
    local name=$1 program=$2 key start seconds code
    shift 2
    case "$name" in *"$only"*) ;; *) return ;; esac
    key=$state/$(printf '%s' "$name" | tr -c 'A-Za-z0-9._-' _)-$(cksum <"$program" | tr ' ' -)
    if [ -e "$key" ]; then
        passed=$((passed + 1))
        echo "passed earlier  $name" | tee -a "$summary"
        return
    fi
    if [ "$budget" -gt 0 ] && [ "$SECONDS" -ge "$budget" ]; then
        left=$((left + 1))
        echo "left for later  $name" | tee -a "$summary"
        return
    fi
    local package=${program#"$here"/}
    package=$here/${package%%/*}
    start=$SECONDS
    echo "== $name: $*" >>"$log"
    (cd "$package" && CARGO_MANIFEST_DIR=$package timeout "$step_limit" "$@") >"$out/step.txt" 2>&1 </dev/null
    code=$?
    seconds=$((SECONDS - start))
    cat "$out/step.txt" >>"$log"
    if [ $code -eq 0 ]; then
        passed=$((passed + 1))
        touch "$key"
        printf 'passed %5d s  %s\n' "$seconds" "$name" | tee -a "$summary"
        grep -E '^test result: |ERROR SUMMARY' "$out/step.txt" | sed 's/^/                /' | tee -a "$summary"
    else
        failed=$((failed + 1))
        [ $code -eq 124 ] && echo "stopped after $step_limit s" >>"$out/step.txt"
        printf 'FAILED %5d s  %s (exit status %d)\n' "$seconds" "$name" "$code" | tee -a "$summary"
        tail -n 30 "$out/step.txt" | sed 's/^/    /'
    fi
    rm -f "$out/step.txt"
}

# each FOLDER: prints the bundled programs of that kind.
each() {
    local program
    for program in "$here"/*/"$1"/*; do
        [ -f "$program" ] && [ -x "$program" ] && echo "$program"
    done
}

named() { echo "${1#"$here"/}"; }

# left_out PROGRAM: prints the options that leave out the tests which read files of the repository.
left_out() {
    case "$(named "$1")" in
    cuda-driver/tests/it)
        echo --skip names::functions_are_found_by_their_runtime_name
        echo --skip names::pages_start_with_the_block_beside_the_type
        echo --skip signatures_of_texts::both_parsers_read_the_same_signatures
        ;;
    esac
}

if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>&1 | tee -a "$log" "$summary"
else
    echo "nvidia-smi was not found: this machine probably has no GPU" | tee -a "$log" "$summary"
fi
for program in $(each tests); do
    # shellcheck disable=SC2046 # The options are words.
    step "$(named "$program")" "$program" "$program" $(left_out "$program")
    # Ignored tests that require exclusive use of the GPU.
    for test in $("$program" --list --ignored 2>/dev/null | sed -n 's/_by_itself: test$/_by_itself/p'); do
        step "$(named "$program") $test" "$program" "$program" --ignored --exact "$test" --nocapture
    done
done
for program in $(each examples); do
    step "$(named "$program")" "$program" "$program"
done
if [ $sanitizer -eq 1 ]; then
    for program in $(each examples); do
        # This example provokes errors of calls.
        report=explicit
        [ "${program##*/}" = errors ] && report=no
        step "memcheck $(named "$program")" "$program" \
            compute-sanitizer --tool memcheck --report-api-errors $report --error-exitcode 1 "$program"
    done
    # Only tests whose calls succeed. Tests that lose the device are excluded, and so are tests that make a
    # stream wait for the host, because the tool serializes all work and would hang.
    tests=$here/cuda-driver/tests/it
    if [ -x "$tests" ]; then
        step "memcheck cuda-driver/tests/it" "$tests" \
            compute-sanitizer --tool memcheck --leak-check full --report-api-errors no --error-exitcode 1 "$tests" \
            kernel:: memory:: order:: pinned:: managed:: pool:: pitched:: global:: allocation:: transfer:: event:: \
            module:: library:: arguments:: padding:: staging::copies_of staging::random staging::two_threads \
            --skip futures --skip wait
    fi
fi
if [ $benches -eq 1 ]; then
    for program in $(each benches); do
        step "$(named "$program")" "$program" "$program" --bench
    done
fi

echo
echo "the whole output is in $log"
[ $left -gt 0 ] && echo "$left steps are left: run this script again"
echo "$passed passed, $failed failed" | tee -a "$summary"
[ $failed -eq 0 ] && [ $left -eq 0 ]
