#!/usr/bin/env bash
# curl.sh URL
#
# Reads an event stream like a shell script would: runs curl in a loop, with the id of the last complete
# event. Prints the data of each event. Exits when its standard input is closed.

url="$1" last_id="" id="" data=""

{ cat >/dev/null; kill $$; } <&0 &

while :; do
  while IFS= read -r line; do
    case "$line" in
      "id: "*) id="${line#id: }" ;;
      "data: "*) data="${line#data: }" ;;
      "") [ -z "$id" ] || last_id="$id"
          [ -z "$data" ] || printf '%s\n' "$data"
          id="" data="" ;;
    esac
  done < <(exec curl --silent --show-error --fail --no-buffer --connect-timeout 10 ${last_id:+-H "Last-Event-ID: $last_id"} "$url" </dev/null)
  # Discard an incomplete event: the server sends it again.
  id="" data=""
  sleep 1
done
