#!/bin/sh
# Runs a Windows program under wine, for example the tests of a package:
#
#	GOOS=windows GOARCH=amd64 go test -exec "$PWD/testdata/wine/run.sh" .
#
# The first run makes a wine prefix (about 700 MB) below JOBPROBE_WINE_CACHE,
# by default ~/.cache/jobprobe-wine; later runs, also at the same time, share
# it. It needs wine64, util-linux's flock and, for a wine without
# bcryptprimitives.dll, x86_64-w64-mingw32-gcc.
set -eu

fail() {
	echo "run.sh: $*" >&2
	exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
wine=
for candidate in wine64 /usr/lib/wine/wine64 wine; do
	if command -v "$candidate" >/dev/null; then
		wine=$candidate
		break
	fi
done
[ -n "$wine" ] || fail "wine is not installed (Debian: apt-get install wine64)"
command -v flock >/dev/null || fail "flock is not installed (Debian: apt-get install util-linux)"

cache=${JOBPROBE_WINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/jobprobe-wine}
version=$("$wine" --version | tr -c 'A-Za-z0-9.\n-' _)
export WINEPREFIX="$cache/$version"
export WINEARCH=win64
export WINEDEBUG=-all
# No Mono, no Gecko and no menu entries: nothing here needs them.
export WINEDLLOVERRIDES='mscoree=;mshtml=;winemenubuilder.exe='
mkdir -p "$cache"

# Made once, by whoever holds the lock; .ready is the last thing written.
exec 9>"$cache/lock"
flock 9
if [ ! -e "$WINEPREFIX/.ready" ]; then
	rm -rf "$WINEPREFIX"
	"$wine" wineboot --init </dev/null >"$cache/init.log" 2>&1 9>&- ||
		fail "wineboot failed, see $cache/init.log"
	system32=$WINEPREFIX/drive_c/windows/system32
	[ -d "$system32" ] || fail "wineboot made no prefix, see $cache/init.log"
	if [ ! -e "$system32/bcryptprimitives.dll" ]; then
		x86_64-w64-mingw32-gcc -shared -O2 -o "$system32/bcryptprimitives.dll" \
			"$here/bcryptprimitives.c" -ladvapi32 ||
			fail "cannot build bcryptprimitives.dll (Debian: apt-get install gcc-mingw-w64-x86-64)"
	fi
	: >"$WINEPREFIX/.ready"
fi
exec 9>&-

# wine's services outlive the program by some seconds. Started here, they do
# not hold its output, for whose end "go test" waits.
"$wine" cmd /c exit </dev/null >/dev/null 2>&1
exec "$wine" "$@"
