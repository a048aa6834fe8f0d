package jobprobe

import "golang.org/x/sys/unix"

// seesAllProcesses says whether kill(2) answers ESRCH for free numbers only.
// FreeBSD also gives it for processes outside the caller's jail, and for
// those of other users, groups or jails where security(7) hides them
// (cr_cansignal in sys/kern/kern_prot.c). A switch that cannot be read counts
// as set; the one for jails is newer than the others and may be missing.
func seesAllProcesses() bool {
	jailed, err := unix.SysctlUint32("security.jail.jailed")
	if err != nil || jailed != 0 {
		return false
	}
	for _, name := range []string{"security.bsd.see_other_uids", "security.bsd.see_other_gids"} {
		if shown, err := unix.SysctlUint32(name); err != nil || shown == 0 {
			return false
		}
	}
	shown, err := unix.SysctlUint32("security.bsd.see_jail_proc")
	return err == unix.ENOENT || err == nil && shown != 0
}
