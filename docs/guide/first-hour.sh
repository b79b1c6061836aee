#!/usr/bin/env bash
# A new user's path, from an empty folder on a machine with Rust and Python to a cluster of three nodes that a program uses:
#
#   first-hour.sh SOURCES
#
# SOURCES is where this tree is. All that it makes is in the current folder, which is to be empty. Each command is shown, and at the
# end how long they took. The first builds; the others take less than a minute. ZEROHOP_PORT is where the cluster listens, 7400
# unless given; ZEROHOP_WHEEL is a wheel that is built already.
set -euo pipefail

sources=$(cd "${1:?say where the sources are: first-hour.sh SOURCES}" && pwd)
port=${ZEROHOP_PORT:-7400}
export ZEROHOP_ENDPOINT=127.0.0.1:$port
[[ -z $(ls -A) ]] || { echo "first-hour.sh: the current folder is not empty: make one, and go there" >&2; exit 1; }

commands=0
show() { commands=$((commands + 1)); printf '\n[%d] %s\n' "$commands" "$*"; }

# 1: the wheel, which carries the program.
show cargo xtask wheel
wheel=${ZEROHOP_WHEEL:-$(cd "$sources" && cargo xtask wheel)}
built=$SECONDS

show python3 -m venv env
python3 -m venv env

show env/bin/pip install "$wheel"
env/bin/pip install --quiet --disable-pip-version-check --no-index "$wheel"

show env/bin/zerohop up --port "$port"
env/bin/zerohop up --port "$port" >up.log 2>&1 &
cluster=$!
trap 'kill $cluster 2>/dev/null || true; wait $cluster 2>/dev/null || true' EXIT
until grep -q '^Ready' up.log; do
  kill -0 $cluster 2>/dev/null || { cat up.log >&2; exit 1; }
  sleep 0.1
done

show env/bin/zerohop kv insert colour blue
env/bin/zerohop kv insert colour blue

show env/bin/python first.py
cat >first.py <<'END'
import os, zerohop

client = zerohop.connect(os.environ["ZEROHOP_ENDPOINT"])
keyspace = client.keyspace()
print(keyspace["colour"], keyspace.increment("visits"))
with keyspace.blobs.open("film", "wb") as film:
    film.write(bytes(10_000_000))
with client.transaction() as t:
    t[keyspace]["films"] = "1"
    t[keyspace]["colour"] = "red"
print(keyspace["colour"], keyspace.blobs.stat("film").size)
END
env/bin/python first.py

show env/bin/zerohop status
env/bin/zerohop status

show env/bin/zerohop doctor
env/bin/zerohop doctor || true

show kill $cluster
kill $cluster
wait $cluster || true
trap - EXIT

printf '\n%d commands; after the build %d seconds\n' "$commands" "$((SECONDS - built))"
