package source

import (
	"io/fs"
	"os/exec"
	"syscall"
)

// group starts a program in its own process group, so that cancelling reaches its children. It dies with lab, or the
// next run would build concurrently.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// isolate also unshares mounts: those of debootstrap vanish even if it is killed.
func isolate(cmd *exec.Cmd) {
	group(cmd)
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
}

func stat(info fs.FileInfo) fileStat {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileStat{mode: int64(info.Mode().Perm())}
	}
	return fileStat{
		mode: int64(st.Mode & 0o7777), uid: int(st.Uid), gid: int(st.Gid),
		inode: inode{dev: st.Dev, ino: st.Ino}, links: uint64(st.Nlink), //nolint:unconvert // its type differs between architectures
	}
}
