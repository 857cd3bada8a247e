#!/usr/bin/env bash
# The checks of the house, in order; the first red one ends the run.
#
#   ./check.sh quick    format, lints, quick tests: before each commit
#   ./check.sh          all of quick, then documentation, doc tests, long loops and the README's
#                       first command: before work lands
#   ./check.sh faults   the binary broken on purpose: kills, failing system calls, full disks,
#                       jumping clocks; what the machine cannot do is skipped by name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

step() {
    local name=$1
    shift
    printf '==> %s: %s\n' "$name" "$*" >&2
    local began=$SECONDS
    if ! "$@" </dev/null; then
        printf '==> RED: %s\n' "$name" >&2
        exit 1
    fi
    printf '==> %s: %d s\n' "$name" "$((SECONDS - began))" >&2
}

quick() {
    step format cargo fmt --check
    step lints cargo clippy --locked --all-targets -- -D warnings
    step 'lints of the library alone' \
        cargo clippy --locked --no-default-features --lib -- -D warnings
    step 'quick tests' cargo test --locked --tests
}

documentation() {
    step documentation env RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps
    step 'doc tests' cargo test --locked --doc
}

long_loops() {
    step 'long loops' env CALLBOARD_LONG=1 cargo test --locked --release --test it
}

# Not part of `all`: it wants root, strace and libfaketime for all of it.
faults() {
    step faults env CALLBOARD_FAULTS=1 cargo test --locked --release --test it faults:: -- \
        --skip crash_faults --nocapture --test-threads 2
}

# What a reader tries first must work as it is written.
first_command() {
    local command
    command=$(grep -m 1 '^cargo run ' README.md) || {
        echo 'README.md shows no line that begins with "cargo run"' >&2
        exit 1
    }
    step "the README's first command" bash -c "$command"
}

case "${1-all}" in
quick)
    quick
    ;;
faults)
    faults
    ;;
all)
    quick
    documentation
    long_loops
    first_command
    ;;
*)
    echo 'usage: ./check.sh [quick|faults]' >&2
    exit 2
    ;;
esac
echo '==> green' >&2
