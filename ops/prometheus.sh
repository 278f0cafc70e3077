#!/bin/sh
# Install the Prometheus that tests/ops loads the alerts into: Debian's package, by apt-get.
set -eu

if path=$(command -v prometheus) && command -v promtool > /dev/null; then
  echo "prometheus: $path"
  exit 0
fi

"${0%/*}/apt.sh" prometheus prometheus-setup \
  "Install Prometheus another way, so that prometheus and promtool are on PATH." prometheus
echo "prometheus: $(command -v prometheus)"
