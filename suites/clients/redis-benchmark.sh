#!/usr/bin/env bash
# redis-benchmark against the instances whose ports are given: it ends well only if no reply is an error. Its own test of LRANGE
# fills the list by LPUSH, which is not spoken here.
set -euo pipefail
first=$1
redis-cli -p "$first" rpush mylist a b c >/dev/null
for depth in 1 16; do
  for what in "-t ping,set,get,incr,rpush -r 50" "-t mset" "lrange mylist 0 99"; do
    redis-benchmark -p "$first" -n 500 -c 5 -P "$depth" -q $what
  done
done
redis-benchmark --cluster -p "$first" -t set,get -n 300 -c 4 -q
