//go:build !unix

package doctor

import (
	"errors"
	"syscall"
)

func detached() *syscall.SysProcAttr { return nil }

func reload(int) error { return errors.ErrUnsupported }
