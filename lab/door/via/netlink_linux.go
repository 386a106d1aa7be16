package via

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"syscall"
)

// setMark sets the mark of a socket.
func setMark(fd uintptr, mark uint32) error {
	return os.NewSyscallError("setsockopt SO_MARK", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_MARK, int(mark)))
}

// setRoute makes gateway the default route of a table, and has sockets with the table's number as mark use it.
func setRoute(table uint32, gateway netip.Addr) error {
	const existing = syscall.NLM_F_CREATE | syscall.NLM_F_EXCL
	if err := request(syscall.RTM_NEWRULE, existing, ruleMessage(table)); err != nil && !errors.Is(err, syscall.EEXIST) {
		return os.NewSyscallError("netlink rule", err)
	}
	return os.NewSyscallError("netlink route", request(syscall.RTM_NEWROUTE, syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE, routeMessage(table, gateway)))
}

// Attributes of rules: linux/fib_rules.h
const (
	fraFwmark = 10
	fraTable  = 15
	toTable   = 1 // FR_ACT_TO_TBL
)

// rtaTable is RTA_TABLE of linux/rtnetlink.h, for tables above 255.
const rtaTable = 15

func ruleMessage(table uint32) []byte {
	b := []byte{syscall.AF_INET, 0, 0, 0, syscall.RT_TABLE_UNSPEC, 0, 0, toTable, 0, 0, 0, 0}
	return number(number(b, fraFwmark, table), fraTable, table)
}

func routeMessage(table uint32, gateway netip.Addr) []byte {
	b := []byte{syscall.AF_INET, 0, 0, 0, syscall.RT_TABLE_UNSPEC, syscall.RTPROT_STATIC, syscall.RT_SCOPE_UNIVERSE, syscall.RTN_UNICAST, 0, 0, 0, 0}
	to := gateway.As4()
	return attribute(number(b, rtaTable, table), syscall.RTA_GATEWAY, to[:])
}

func number(b []byte, kind uint16, value uint32) []byte {
	return attribute(b, kind, binary.NativeEndian.AppendUint32(nil, value))
}

// attribute appends an attribute of four bytes, which needs no padding.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(syscall.SizeofRtAttr+len(value)))
	return append(binary.NativeEndian.AppendUint16(b, kind), value...)
}

// request sends a message to the kernel and waits for its acknowledgement.
func request(kind uint16, flags int, body []byte) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	kernel := &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}
	if err := syscall.Bind(fd, kernel); err != nil {
		return err
	}
	m := binary.NativeEndian.AppendUint32(nil, uint32(syscall.NLMSG_HDRLEN+len(body)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, uint16(flags|syscall.NLM_F_REQUEST|syscall.NLM_F_ACK))
	m = append(m, 1, 0, 0, 0, 0, 0, 0, 0) // sequence, port
	if err := syscall.Sendto(fd, append(m, body...), 0, kernel); err != nil {
		return err
	}
	answer := make([]byte, os.Getpagesize())
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	list, err := syscall.ParseNetlinkMessage(answer[:n])
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.Header.Type == syscall.NLMSG_ERROR && len(m.Data) >= 4 {
			if code := -int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
				return syscall.Errno(code)
			}
			return nil
		}
	}
	return errors.New("no acknowledgement")
}
