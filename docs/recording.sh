# What README's moving picture shows: typed here by a script, answered by the program that ships. `cargo xtask recording` runs it.
set -eu
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# A whole line at a time, right after a fire: what the coordinator says must not come into it.
type() {
    while [ $(($(date +%s) % 5)) -ne 1 ]; do sleep 0.1; done
    printf '\033[1;36m$ %s\033[0m\n' "$*"
    sleep 0.3
}

type rosterd dev
rosterd dev --data-dir "$data" &
coordinator=$!
sleep 6
# The demonstration's workers are its children; the first one is ann.
victim=$(ps -o pid= --ppid "$coordinator" | head -1 | tr -d ' ')
type kill -9 "$victim"
kill -9 "$victim"
sleep 6
type rosterd explain demo/0
rosterd explain demo/0
type rosterd verify --job demo
rosterd verify --job demo
sleep 2
kill -INT "$coordinator"
wait "$coordinator" || true
