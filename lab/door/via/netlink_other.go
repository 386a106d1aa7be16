//go:build !linux

package via

import (
	"errors"
	"net/netip"
)

var errLinux = errors.New("the door runs on Linux only")

func setMark(uintptr, uint32) error { return errLinux }

func setRoute(uint32, netip.Addr) error { return errLinux }
