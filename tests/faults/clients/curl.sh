#!/usr/bin/env bash
# curl.sh URL
#
# Follows a stream of events as a shell script would: curl, again and again, each time with the id of the last whole event.
# Prints the data of each. Ends with its standard input.

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
  # What was cut within an event comes again.
  id="" data=""
  sleep 1
done
