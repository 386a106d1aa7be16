//go:build unix

package doctor

import (
	"os"
	"syscall"
)

// detached starts a process in its own session, out of reach of terminal interrupts.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// reload makes a process reload its configuration.
func reload(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGHUP)
}
