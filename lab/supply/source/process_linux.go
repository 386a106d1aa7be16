package source

import (
	"io/fs"
	"os/exec"
	"syscall"
)

// group puts a program into a process group of its own, so that cancelling it reaches what it started. It does not outlive lab, however lab ends: the
// next run would otherwise build beside it.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// isolate also gives the program mounts of its own: what debootstrap mounts inside the new root is gone with it, even when it is killed.
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
