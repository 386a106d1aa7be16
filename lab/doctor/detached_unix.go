//go:build unix

package doctor

import (
	"os"
	"syscall"
)

// detached gives a process a session of its own: an interrupt at the terminal does not reach it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// reload tells a process to read its configuration again.
func reload(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGHUP)
}
