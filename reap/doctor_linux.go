package reap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems names the types that a store is likely to be on (statfs(2)), with
// the limit that each puts on it.
var fileSystems = map[int64]struct{ name, limit string }{
	unix.EXT4_SUPER_MAGIC:      {"ext4", ""},
	unix.XFS_SUPER_MAGIC:       {"xfs", ""},
	unix.BTRFS_SUPER_MAGIC:     {"btrfs", ""},
	unix.F2FS_SUPER_MAGIC:      {"f2fs", ""},
	0x2fc12fc1:                 {"zfs", ""},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", "what is in it goes with its container"},
	unix.TMPFS_MAGIC:           {"tmpfs", "what is in it goes with the next boot"},
	unix.RAMFS_MAGIC:           {"ramfs", "what is in it goes with the next boot"},
	unix.NFS_SUPER_MAGIC:       {"nfs", "its server decides on locks and on what is durable, and a wait is not woken by other hosts"},
	unix.CIFS_SUPER_MAGIC:      {"cifs", "its server decides on locks and on what is durable, and a wait is not woken by other hosts"},
	unix.SMB2_SUPER_MAGIC:      {"smb", "its server decides on locks and on what is durable, and a wait is not woken by other hosts"},
	unix.V9FS_MAGIC:            {"9p", "its server decides on locks and on what is durable, and a wait is not woken by other hosts"},
	unix.FUSE_SUPER_MAGIC:      {"fuse", "its server decides on locks and on what is durable"},
}

func checkFileSystem(dir string) Check {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Check{"file system", Unchecked, err.Error()}
	}
	known, ok := fileSystems[int64(st.Type)]
	switch {
	case !ok:
		return Check{"file system", Unchecked, fmt.Sprintf("of a type that is not known here, %#x", st.Type)}
	case known.limit != "":
		return Check{"file system", Doubtful, known.name + ": " + known.limit}
	}
	return Check{"file system", Healthy, known.name}
}
