#!/bin/sh
# Creates the default namespace with the retention of the embedded mode; safe to repeat.
set -eu
temporal operator namespace describe --namespace default >/dev/null 2>&1 \
  || temporal operator namespace create --namespace default --retention 720h
