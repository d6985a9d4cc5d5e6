#!/usr/bin/env bash
# Tries jobscripts/containers/zeropp.def where there is no Apptainer: runs its %post, then its %environment and %test,
# in a bare Debian 12 root. Its header (the base image) and --build-arg are not tried. Needs what bare_root.sh needs.
#
# usage: tests/setup/container.sh DIR
#   DIR  where the root is made; kept afterwards
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
definition=$here/../../jobscripts/containers/zeropp.def

section() {  # NAME: its text, with the defaults of %arguments in place
  local text line name
  text=$(sed -n "/^%$1\$/,/^%/{/^%/d;p}" "$definition")
  while IFS= read -r line; do
    name=${line%%=*}
    text=${text//"{{ ${name// /} }}"/"${line#*=}"}
  done < <(sed -n '/^%arguments$/,/^%/{/=/p}' "$definition")
  [ -n "$text" ] || { echo "container: error: no section %$1 in $definition" >&2; exit 1; }
  printf '%s\n' "$text"
}
post=$(section post)
test="export PATH=/usr/local/bin:\$PATH  # as in Apptainer
$(section environment; section test)"
printf -v command 'rm -rf /opt/zeropp /opt/zeropp.git; cp -a .git /opt/zeropp.git; sh -c %q; cd /; sh -c %q' \
  "$post" "$test"
exec "$here/bare_root.sh" "$1" "$command"
