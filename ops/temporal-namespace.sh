#!/bin/sh
# Creates the namespace with the retention of the embedded mode, and gives it the search attributes
# that runs carry; safe to repeat.
set -eu
namespace=${TEMPORAL_NAMESPACE:-default}

wait_for() {
  # After two minutes the command's own error is shown, and the job fails.
  for _ in $(seq 120); do
    "$@" >/dev/null 2>&1 && return
    sleep 1
  done
  "$@"
}

# An open port is not yet a server that answers, and a new namespace is known after some seconds.
wait_for temporal operator cluster health
temporal operator namespace describe --namespace "$namespace" >/dev/null 2>&1 \
  || temporal operator namespace create --namespace "$namespace" --retention 720h
wait_for temporal operator search-attribute list --namespace "$namespace"

add() {
  # What is there already is left as it is: the worker says so if its type is another one.
  temporal operator search-attribute list --namespace "$namespace" | grep -qw "$1" && return
  temporal operator search-attribute create --namespace "$namespace" --name "$1" --type "$2"
}

for name in Kind Lifecycle Phase BlockedOn Label Tenant Outcome; do add "Perdure$name" Keyword; done
add PerdureIteration Int
add PerdureScore Double
add PerdureCostUsd Double
