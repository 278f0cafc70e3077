#!/bin/sh
# Install the sandbox that command, tests and lint checks run in: bubblewrap, by apt-get.
set -eu

works() {
  env -i "$1" --unshare-all --unshare-user --die-with-parent --ro-bind / / /bin/true
}

if ! path=$(command -v bwrap); then
  "${0%/*}/apt.sh" sandbox sandbox-setup \
    "Install the package bubblewrap another way, so that bwrap is on PATH." bubblewrap
  path=$(command -v bwrap)
fi

if ! works "$path"; then
  echo "sandbox: $path is installed, but this machine does not let it make namespaces (see above)." >&2
  echo "In a container, allow user namespaces; elsewhere look at kernel.unprivileged_userns_clone" >&2
  echo "and kernel.apparmor_restrict_unprivileged_userns." >&2
  exit 1
fi
echo "sandbox: $path"
