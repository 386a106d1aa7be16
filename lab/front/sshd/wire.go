package sshd

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// Message numbers.
const (
	msgDisconnect    = 1
	msgIgnore        = 2
	msgUnimplemented = 3
	msgDebug         = 4
	msgService       = 5
	msgServiceAccept = 6
	msgExtInfo       = 7
	msgKexInit       = 20
	msgNewKeys       = 21
	msgECDHInit      = 30
	msgECDHReply     = 31
	msgAuth          = 50
	msgAuthSuccess   = 52
	msgGlobal        = 80
	msgGlobalSuccess = 81
	msgGlobalFailure = 82
	msgOpen          = 90
	msgOpened        = 91
	msgOpenFailure   = 92
	msgWindow        = 93
	msgData          = 94
	msgExtended      = 95
	msgEOF           = 96
	msgClose         = 97
	msgRequest       = 98
	msgSuccess       = 99
	msgFailure       = 100
)

// message is a message under construction.
type message []byte

func (m message) num(n uint32) message { return binary.BigEndian.AppendUint32(m, n) }

func (m message) text(s string) message { return append(m.num(uint32(len(s))), s...) }

func (m message) flag(b bool) message {
	if b {
		return append(m, 1)
	}
	return append(m, 0)
}

// integer appends a positive number, given as big-endian bytes.
func (m message) integer(n []byte) message {
	for len(n) > 0 && n[0] == 0 {
		n = n[1:]
	}
	if len(n) > 0 && n[0] >= 0x80 {
		n = append([]byte{0}, n...)
	}
	return m.text(string(n))
}

var errShort = errors.New("message too short")

// fields parses a message. It keeps the first error, after which all values are zero.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) bytes(n uint32) []byte {
	if f.err != nil || uint64(n) > uint64(len(f.rest)) {
		f.rest, f.err = nil, errShort
		return nil
	}
	out := f.rest[:n]
	f.rest = f.rest[n:]
	return out
}

func (f *fields) flag() bool { b := f.bytes(1); return len(b) == 1 && b[0] != 0 }

func (f *fields) num() uint32 {
	if b := f.bytes(4); len(b) == 4 {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (f *fields) text() string { return string(f.bytes(f.num())) }

// firstOf returns the first of a client's algorithms that the server supports.
func firstOf(client string, server []string) (string, error) {
	for name := range strings.SplitSeq(client, ",") {
		if slices.Contains(server, name) {
			return name, nil
		}
	}
	return "", errors.New("client supports none of " + strings.Join(server, ", "))
}
