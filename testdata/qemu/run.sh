#!/bin/sh
# Runs a Linux program of another architecture, and whatever it starts, under
# qemu's user emulation, for example the tests of a package:
#
#	GOARCH=arm64 go test -exec "$PWD/testdata/qemu/run.sh" .
#
# Programs that a program starts go to the emulator as well, by a binfmt_misc
# of a user namespace of their own (Linux 6.7): nothing on the host changes.
# As root all users are mapped, else only the caller. Tests are run without
# those in skips.txt. It needs qemu-user-static and util-linux.
set -eu

fail() {
	echo "run.sh: $*" >&2
	exit 1
}

# The second half, inside the namespaces: wait for the maps, then register.
if [ "${1-}" = --inside ]; then
	qemu=$2 machine=$3 data=$4
	shift 4
	until read -r _ </proc/self/uid_map; do :; done
	mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || fail "no binfmt_misc in a user namespace here"
	# The first 20 bytes of an ELF header; the OS ABI and the low bit of the
	# file type (a program, or a position-independent one) are free.
	head="\\x7fELF\\x02$data\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
	mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff'
	case $data in
	*01) type='\x02\x00' even='\xfe\xff' ;;
	*) type='\x00\x02' even='\xff\xfe' ;;
	esac
	printf '%s' ":jobprobe:M::$head$type$machine:$mask$even\\xff\\xff:$qemu:F" >/proc/sys/fs/binfmt_misc/register ||
		fail "the kernel refused the emulator"
	exec "$@"
fi

# EI_DATA, the byte at 5, and e_machine, the 16 bits at 18, say which.
header=$(od -An -tx1 -N20 "$1" | tr -d ' \n')
case $header in
7f454c460201*b700) arch=aarch64 machine='\xb7\x00' data='\x01' ;;
7f454c460201*f300) arch=riscv64 machine='\xf3\x00' data='\x01' ;;
7f454c460202*0016) arch=s390x machine='\x00\x16' data='\x02' ;;
*) fail "$1 is no program for arm64, riscv64 or s390x" ;;
esac
qemu=$(command -v "qemu-$arch-static") || fail "qemu-$arch-static is not installed (Debian: apt-get install qemu-user-static)"

case "$*" in
*' -test.'*)
	skips=$(grep -v '^#' "$(dirname "$0")/skips.txt" | tr -s '\n' '|' | sed 's/^|//; s/|$//')
	set -- "$@" "-test.skip=^($skips)\$"
	;;
esac

# This process becomes the program, so that signals reach it. Its grandchild
# writes the maps once it has left for its own namespace.
users() {
	while [ "$(readlink "/proc/$$/ns/user")" = "$(readlink /proc/self/ns/user)" ]; do :; done
	if [ "$(id -u)" = 0 ]; then
		all="0 0 4294967295"
		echo "$all" >"/proc/$$/gid_map" && echo "$all" >"/proc/$$/uid_map"
	else
		echo deny >"/proc/$$/setgroups"
		echo "0 $(id -g) 1" >"/proc/$$/gid_map" && echo "0 $(id -u) 1" >"/proc/$$/uid_map"
	fi || kill $$
}
(users </dev/null >/dev/null &)
exec unshare --user --mount "$0" --inside "$qemu" "$machine" "$data" "$@"
